//! The web page of the API's listener, with curl: it needs no token, restricts browsers, and is sent once.

use std::process::Command;

use crate::changes;
use crate::support::{APEX, Server, free_address, text, written};

/// Sends a request with curl, and returns the head and the body.
fn curl(arguments: &[&str]) -> (String, String) {
    let output = Command::new("curl").args(["-s", "-i", "--max-time", "60"]).args(arguments).output();
    let answer = text(&output.expect("curl").stdout);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_ascii_lowercase(), body.to_owned())
}

#[test]
fn the_page_needs_no_token_and_is_sent_again_only_if_it_has_changed() {
    let at = free_address();
    let api = format!("[api]\nlisten = [{}]\n", written(at));
    let _server = Server::start_in(changes::folder(APEX), "state-dir = \"state\"\n", &api);
    let url = |path: &str| format!("http://{at}{path}");
    let (head, body) = curl(&[&url("/")]);
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(body.contains("<script type=\"module\" src=\"/app.js\"></script>"), "{body}");
    for field in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; script-src 'self'; ",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "x-frame-options: deny",
        "cache-control: no-cache",
    ] {
        assert_eq!(head.matches(field).count(), 1, "{field}: {head}");
    }
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("an entity tag");
    let (again, none) = curl(&["-H", &format!("If-None-Match: {tag}"), &url("/")]);
    assert!(again.starts_with("http/1.1 304") && none.is_empty(), "{again}");
    let (script, _) = curl(&["-H", &format!("If-None-Match: {tag}"), &url("/app.js")]);
    assert!(script.starts_with("http/1.1 200") && script.contains("text/javascript"), "{script}");
    for (arguments, status) in
        [(vec!["-X", "POST"], "http/1.1 405"), (vec!["-H", "Host: attacker.example"], "http/1.1 421")]
    {
        let (head, _) = curl(&[&arguments[..], &[&url("/")]].concat());
        assert!(head.starts_with(status), "{status}: {head}");
    }
    let (missing, _) = curl(&[&url("/other.js")]);
    assert!(missing.starts_with("http/1.1 404"), "{missing}");
    let (closed, _) = curl(&[&url("/api/nomen/v1/status")]);
    assert!(closed.starts_with("http/1.1 401"), "{closed}");
}
