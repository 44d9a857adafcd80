//! The query path: request, screen, route, source, rewrite, render.
