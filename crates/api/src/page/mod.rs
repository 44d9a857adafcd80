//! The web page: its files, which are part of the program, and the header fields that restrict a browser.
//!
//! The page is `files/index.html` and ES modules without a build step. A browser loads nothing from other
//! origins, runs no inline script and applies no inline style; the modules create text nodes from data, never
//! markup. `docs/PAGE.md` describes the page for operators, `conformance/page` tests it in a browser.

use std::hash::{DefaultHasher, Hash, Hasher};

use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};

/// The content security policy: the page runs its own scripts, applies its own style and requests its own
/// server. A browser with trusted types refuses every conversion of text to markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    form-action 'none'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; \
    trusted-types 'none'";

/// A file of the web page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asset {
    /// The media type.
    pub(crate) media_type: &'static str,
    /// The contents.
    pub(crate) content: &'static [u8],
    /// The `Content-Security-Policy`.
    pub(crate) policy: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// Returns the entry of a file with its media type.
macro_rules! file {
    ($media_type:expr, $path:literal, $name:literal) => {
        ($path, $media_type, include_bytes!(concat!("files/", $name)).as_slice())
    };
}

/// The files: path, media type, contents.
const FILES: &[(&str, &str, &[u8])] = &[
    file!(HTML, "/", "index.html"),
    file!(ICON, "/icon.svg", "icon.svg"),
    file!(STYLE, "/style.css", "style.css"),
    file!(SCRIPT, "/api.js", "api.js"),
    file!(SCRIPT, "/app.js", "app.js"),
    file!(SCRIPT, "/chart.js", "chart.js"),
    file!(SCRIPT, "/diff.js", "diff.js"),
    file!(SCRIPT, "/dom.js", "dom.js"),
    file!(SCRIPT, "/explain.js", "explain.js"),
    file!(SCRIPT, "/history.js", "history.js"),
    file!(SCRIPT, "/keys.js", "keys.js"),
    file!(SCRIPT, "/overview.js", "overview.js"),
    file!(SCRIPT, "/policy.js", "policy.js"),
    file!(SCRIPT, "/queries.js", "queries.js"),
    file!(SCRIPT, "/rates.js", "rates.js"),
    file!(SCRIPT, "/records.js", "records.js"),
    file!(SCRIPT, "/resolver.js", "resolver.js"),
    file!(SCRIPT, "/rights.js", "rights.js"),
    file!(SCRIPT, "/server.js", "server.js"),
    file!(SCRIPT, "/transfers.js", "transfers.js"),
    file!(SCRIPT, "/zone.js", "zone.js"),
    file!(SCRIPT, "/zones.js", "zones.js"),
];

/// Returns the file at a path, such as `/` or `/app.js`.
pub(crate) fn asset(path: &str) -> Option<Asset> {
    let &(_, media_type, content) = FILES.iter().find(|(of, ..)| *of == path)?;
    Some(Asset { media_type, content, policy: POLICY })
}

impl Asset {
    /// Returns the header fields of the response, except the length.
    pub(crate) fn fields(&self) -> Vec<(HeaderName, HeaderValue)> {
        let fixed = [
            (CONTENT_TYPE, self.media_type),
            (CONTENT_SECURITY_POLICY, self.policy),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (X_FRAME_OPTIONS, "DENY"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            // A browser asks whether its copy is current, so that an upgrade of the server is seen at once.
            (CACHE_CONTROL, "no-cache"),
        ];
        let tag = HeaderValue::from_str(&self.tag()).ok().map(|tag| (ETAG, tag));
        fixed.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).chain(tag).collect()
    }

    /// Returns whether a request has the current version of the file already (RFC 9110 §13.1.2).
    pub(crate) fn is_known(&self, request: &HeaderMap) -> bool {
        let tag = self.tag();
        let known = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let mut tags = known.flat_map(|value| value.split(','));
        tags.any(|one| {
            let one = one.trim();
            one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag
        })
    }

    /// Returns the entity tag: a hash of the contents.
    fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.content.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest size of all files together.
    const MAX_BYTES: usize = 150_000;
    /// The namespace of SVG: a name, from which nothing is loaded.
    const SVG_NAMESPACE: &str = "http://www.w3.org/2000/svg";

    fn text(content: &[u8]) -> &str {
        std::str::from_utf8(content).expect("UTF-8")
    }

    #[test]
    fn the_files_are_small() {
        let sizes: usize = FILES.iter().map(|(.., content)| content.len()).sum();
        assert!(sizes <= MAX_BYTES, "{sizes}");
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere_and_no_text_becomes_markup_or_code() {
        let banned = [
            "http://",
            "https://",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "eval(",
            "new Function",
            "style=",
            "javascript:",
            "srcdoc",
            "setTimeout(\"",
            "import(",
            "createContextualFragment",
            "localStorage",
            "document.cookie",
        ];
        for (path, _, content) in FILES {
            let shown = text(content).replace(SVG_NAMESPACE, "");
            for word in banned {
                assert!(!shown.contains(word), "{path}: {word}");
            }
        }
    }

    #[test]
    fn markup_has_no_inline_scripts_styles_or_handlers() {
        for (path, ..) in FILES.iter().filter(|(_, media_type, _)| [HTML, ICON].contains(media_type)) {
            let markup = text(asset(path).expect("a file").content).to_ascii_lowercase();
            for tag in markup.split('<').skip(1) {
                let (tag, inside) = tag.split_once('>').expect("an end");
                assert!(!tag.starts_with("style"), "{path}: {tag}");
                assert!(
                    !tag.starts_with("script") || tag.contains(" src=") && inside.is_empty(),
                    "{path}: {tag}"
                );
                let mut attributes = tag.split_ascii_whitespace().skip(1);
                assert!(!attributes.any(|attribute| attribute.starts_with("on")), "{path}: {tag}");
            }
        }
    }

    #[test]
    fn each_file_that_another_names_exists() {
        for (path, _, content) in FILES {
            let names = text(content).split('"').filter(|name| {
                let ends = [".js", ".css", ".svg"];
                name.starts_with('/') && ends.iter().any(|end| name.ends_with(end))
            });
            for name in names {
                assert!(asset(name).is_some(), "{path} names {name}");
            }
        }
        assert!(asset("/index.html").is_none() && asset("").is_none() && asset("/files/app.js").is_none());
    }

    #[test]
    fn a_browser_may_run_and_load_files_of_the_server_alone() {
        for (path, media_type, _) in FILES {
            let fields = asset(path).expect("a file").fields();
            let field = |name: HeaderName| {
                let found = fields.iter().find(|(of, _)| *of == name).expect("the field");
                found.1.to_str().expect("text").to_owned()
            };
            assert_eq!(field(CONTENT_TYPE), *media_type);
            assert_eq!(field(X_CONTENT_TYPE_OPTIONS), "nosniff");
            assert_eq!(field(REFERRER_POLICY), "no-referrer");
            assert_eq!(field(CACHE_CONTROL), "no-cache");
            let policy = field(CONTENT_SECURITY_POLICY);
            for part in [
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "connect-src 'self'",
                "img-src 'self'",
                "form-action 'none'",
                "frame-ancestors 'none'",
                "base-uri 'none'",
            ] {
                assert!(policy.split("; ").any(|of| of == part), "{policy}: {part}");
            }
            assert!(!policy.contains("unsafe"), "{policy}");
        }
    }

    #[test]
    fn a_copy_is_current_if_it_has_the_tag_of_the_file() {
        let (page, script) = (asset("/").expect("a file"), asset("/app.js").expect("a file"));
        assert_ne!(page.tag(), script.tag());
        let known = |value: &str| {
            let mut request = HeaderMap::new();
            request.insert(IF_NONE_MATCH, HeaderValue::from_str(value).expect("a value"));
            page.is_known(&request)
        };
        assert!(known(&page.tag()) && known(&format!("W/{}", page.tag())) && known("*"));
        assert!(known(&format!("{}, {}", script.tag(), page.tag())));
        assert!(!known(&script.tag()) && !known(page.tag().trim_matches('"')));
        assert!(!page.is_known(&HeaderMap::new()));
    }
}
