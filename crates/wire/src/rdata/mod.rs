//! Record data: one file per type, each a description of its fields that serves every use.
