//! The HTTP API with curl: tokens and their rights, limits, changes of zones, streams, TLS, and the document
//! that describes it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::activation;
use crate::changes;
use crate::encrypted::{CERTIFICATE, write_certificate};
use crate::metrics::http_with;
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, run, text, written};

/// `[server]` keys of a server whose zones may be changed.
const STATE: &str = "state-dir = \"state\"\n[log]\naudit-file = \"audit.log\"\n";
/// Rights of an administrator.
pub(crate) const ALL: &str = "{ right = \"all\" }";

/// A token: its secret and its block.
pub(crate) struct Token {
    pub(crate) secret: String,
    pub(crate) block: String,
}

/// Makes a token with these rights.
pub(crate) fn token(name: &str, rights: &str) -> Token {
    let folder = tempfile::tempdir().expect("a folder");
    let made = run(folder.path(), &["token", name]);
    assert!(made.status.success(), "{made:?}");
    let shown = text(&made.stderr);
    let secret =
        shown.lines().find_map(|line| line.trim().starts_with("nomen_").then(|| line.trim().to_owned()));
    let block = text(&made.stdout).replace("[{ right = \"read\" }]", &format!("[{rights}]"));
    Token { secret: secret.expect("a secret"), block }
}

/// A server with its API.
pub(crate) struct Api {
    pub(crate) server: Server,
    pub(crate) at: SocketAddr,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The JSON of a reply that must have this status.
    pub(crate) fn with(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find_map(|(field, value)| field.eq_ignore_ascii_case(name).then(|| value.trim()))
    }
}

/// Runs curl with these arguments.
pub(crate) fn curl(arguments: &[&str]) -> Got {
    let output =
        Command::new("curl").args(["-sS", "-i", "--max-time", "60"]).args(arguments).output().expect("curl");
    let answer = text(&output.stdout);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let head = format!("{head}{}", text(&output.stderr));
    Got { status, head, body: body.to_owned() }
}

impl Api {
    /// Starts a server with `example.`, which the API may change.
    pub(crate) fn start(keys: &str, tokens: &[&Token]) -> Self {
        Self::start_with(keys, tokens, "")
    }

    fn start_with(keys: &str, tokens: &[&Token], more: &str) -> Self {
        let folder = changes::folder(APEX);
        Self::start_in(folder, keys, tokens, more)
    }

    pub(crate) fn start_in(folder: TempDir, keys: &str, tokens: &[&Token], more: &str) -> Self {
        let at = free_address();
        let blocks: String = tokens.iter().map(|token| token.block.as_str()).collect();
        let more = format!("api = true\n[api]\nlisten = [{}]\n{keys}{blocks}{more}", written(at));
        Api { server: Server::start_in(folder, STATE, &more), at }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/api/nomen/v1{path}", self.at)
    }

    /// Sends GET.
    pub(crate) fn get(&self, token: &Token, path: &str) -> Got {
        curl(&["-H", &format!("X-API-Key: {}", token.secret), &self.url(path)])
    }

    /// Sends a body with a method.
    pub(crate) fn send(&self, token: &Token, method: &str, path: &str, body: &Value, more: &[&str]) -> Got {
        let (key, body) = (format!("Authorization: Bearer {}", token.secret), body.to_string());
        let url = self.url(path);
        curl(&[&["-X", method, "-H", &key, "-d", &body, &url], more].concat())
    }

    pub(crate) fn post(&self, token: &Token, path: &str, body: &Value) -> Got {
        self.send(token, "POST", path, body, &[])
    }

    /// Sends an edit with one entry.
    pub(crate) fn edit(&self, token: &Token, zone: &str, entry: Value) -> Got {
        self.post(token, &format!("/zones/{zone}/edit"), &json!({"edits": [entry]}))
    }

    fn limited(&self, limit: &str) -> u64 {
        self.server.counter(&format!("nomen_api_limited_total{{limit=\"{limit}\"}}"))
    }

    fn audit(&self) -> String {
        fs::read_to_string(self.server.path("audit.log")).unwrap_or_default()
    }
}

#[test]
fn tokens_are_made_checked_and_limited() {
    let (mut old, admin) = (token("old", ALL), token("admin", ALL));
    old.block = old.block.replace("rights", "expires = \"2020-01-01\"\nrights");
    let api = Api::start("wrong-tokens = 3\n", &[&old, &admin]);
    assert_eq!(api.get(&admin, "/self").with(200)["token"], "admin");
    let missing = curl(&[&api.url("/self")]);
    assert_eq!((missing.status, missing.header("www-authenticate")), (401, Some("Bearer")), "{missing:?}");
    let forged = Token { secret: admin.secret.replace("nomen_", "nomen-"), block: String::new() };
    for _ in 0..2 {
        // The same one counts once.
        assert_eq!(api.get(&forged, "/self").with(401)["error"], "the token is wrong");
    }
    assert_eq!(api.get(&old, "/self").with(401)["error"], "the token has expired");
    let hash = admin.block.lines().find_map(|line| line.strip_prefix("hash = \"")).expect("a hash");
    let with_hash = Token { secret: hash.trim_end_matches('"').into(), block: String::new() };
    assert_eq!(api.get(&with_hash, "/self").status, 401, "the hash is no secret");
    // The limit is reached: a right guess is not seen either.
    let locked = api.get(&admin, "/self");
    assert_eq!(locked.status, 429, "{locked:?}");
    assert!(locked.header("retry-after").is_some_and(|after| after.parse::<u64>().is_ok()), "{locked:?}");
    assert_eq!((api.limited("wrong-tokens"), api.server.counter("nomen_api_wrong_tokens_total")), (1, 4));
    let listed = text(&api.server.ctl(&["token", "list"]).stdout);
    assert!(listed.starts_with("admin, 1 requests, last ") && listed.contains("\n    all\n"), "{listed}");
    assert!(listed.contains("old, expired on 2020-01-01, not used since the start\n"), "{listed}");
    assert!(!listed.contains(hash.trim_end_matches('"')), "{listed}");
    let refused =
        "API token refused client=127.0.0.1 path=\"/api/nomen/v1/self\" reason=\"the token is wrong\"";
    eventually("the refused token is in the audit file", &api.server, || api.audit().contains(refused));
    assert!(api.audit().contains("token=\"old\""), "{}", api.audit());
}

#[test]
fn a_token_for_challenges_changes_and_sees_nothing_else() {
    let acme = token(
        "acme",
        "{ right = \"change\", zones = [\"example\"], names = [\"_acme-challenge.*\"], types = [\"TXT\"] }",
    );
    let reader = token("reader", "{ right = \"read\", zones = [\"*.example\"] }");
    let more = "[[zone]]\nname = \"sub.example\"\nfile = \"example.zone\"\n";
    let folder = changes::folder(&APEX.replace("example.", "@"));
    let api = Api::start_in(folder, "", &[&acme, &reader], more);
    let entry = |name: &str, rtype: &str, data: &str| json!({"op": "replace", "name": name, "type": rtype, "ttl": 60, "records": [data]});
    let challenge = "_acme-challenge.www.example";
    assert_eq!(api.edit(&acme, "example", entry(challenge, "TXT", "\"x\"")).with(200)["changed"], true);
    for (zone, name, rtype, data) in [
        ("example", "www.example", "TXT", "\"x\""),
        ("example", challenge, "A", "192.0.2.1"),
        ("sub.example", "_acme-challenge.www.sub.example", "TXT", "\"x\""),
    ] {
        let refused = api.edit(&acme, zone, entry(name, rtype, data));
        let error = refused.with(403)["error"].to_string();
        assert!(error.contains("token `acme` does not have the right"), "{error}");
    }
    // One entry without the right refuses all.
    let both = json!({"edits": [entry(challenge, "TXT", "\"y\""), entry("example", "A", "192.0.2.1")]});
    assert_eq!(api.post(&acme, "/zones/example/edit", &both).status, 403);
    let records = api.get(&acme, "/zones/example/records").with(200);
    let only =
        json!([{"name": "_acme-challenge.www.example.", "type": "TXT", "ttl": 60, "records": ["\"x\""]}]);
    assert_eq!(records["rrsets"], only);
    assert_eq!(api.get(&acme, "/zones/example/dump").status, 403);
    let names = |token| {
        let zones = api.get(token, "/zones").with(200);
        zones["zones"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|zone| zone["name"].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&acme), ["\"example.\""]);
    assert_eq!(names(&reader), ["\"sub.example.\""]);
    assert_eq!(api.get(&reader, "/zones/example").status, 403);
    assert_eq!(api.get(&reader, "/zones/nosuch").status, 403, "existence is not shown");
    for path in ["/status", "/tokens", "/queries", "/cache"] {
        assert_eq!(api.get(&reader, path).status, 403, "{path}");
    }
    assert_eq!(api.post(&reader, "/reload", &json!({})).status, 403);
    assert!(api.server.counter("nomen_api_forbidden_total") >= 10);
}

#[test]
fn requests_beyond_a_limit_are_refused_and_counted() {
    let admin = token("admin", ALL);
    let keys =
        "body-size = 1024\nhead-timeout = \"300ms\"\nrequests-per-second = 2\nrequest-timeout = \"1s\"\n";
    let api = Api::start(keys, &[&admin]);
    let large = json!({"edits": [], "x": "y".repeat(2000)});
    assert_eq!(api.post(&admin, "/zones/example/edit", &large).status, 413);
    let chunked = ["-H", "Transfer-Encoding: chunked"];
    assert_eq!(api.send(&admin, "POST", "/zones/example/edit", &large, &chunked).status, 413);
    assert_eq!(api.limited("body-size"), 2);
    // A head that does not end.
    let mut slow = TcpStream::connect(api.at).expect("connected");
    slow.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    write!(slow, "GET /api/nomen/v1/self HTTP/1.1\r\nHost: {}\r\n", api.at).expect("sent");
    assert_eq!(slow.read(&mut [0; 64]).ok(), Some(0), "the connection is closed");
    eventually("it is counted", &api.server, || api.limited("head-timeout") == 1);
    // A body that does not come.
    let head = format!("X-API-Key: {}\r\nContent-Length: 9\r\n", admin.secret);
    let late = http_with(api.at, "POST /api/nomen/v1/reload", &head);
    assert!(late.starts_with("HTTP/1.1 408"), "{late}");
    let rebound = curl(&["-H", "Host: attacker.example", &api.url("/self")]);
    assert_eq!((rebound.status, api.limited("hosts")), (421, 1));
    let refused = (0..40).map(|_| api.get(&admin, "/self")).find(|got| got.status == 429).expect("too many");
    assert_eq!(refused.header("retry-after"), Some("1"), "{refused:?}");
    assert!(api.limited("requests-per-second") >= 1);
    // A reload changes a limit.
    api.server.reconfigure("requests-per-second = 2", "requests-per-second = 1000");
    api.server.reload();
    assert_eq!(api.get(&admin, "/self").status, 200);
}

#[test]
fn records_are_changed_as_long_as_nobody_else_has_changed_them() {
    let admin = token("admin", ALL);
    let api = Api::start("", &[&admin]);
    let status = api.get(&admin, "/zones/example");
    let tag = status.header("etag").expect("a tag").to_owned();
    assert_eq!(tag, format!("\"{}\"", status.with(200)["serial"]));
    let entry =
        json!({"op": "replace", "name": "api.example.", "type": "A", "ttl": 60, "records": ["192.0.2.7"]});
    let tried =
        api.post(&admin, "/zones/example/edit", &json!({"edits": [entry], "dry_run": true})).with(200);
    assert_eq!(tried["changes"], json!([{"sign": "+", "record": "api.example. 60 IN A 192.0.2.7"}]));
    assert_eq!(api.server.query(&["api.example", "A", "+short"]), "");
    let matching = ["-H", &format!("If-Match: {tag}")];
    let edits = json!({"edits": [entry]});
    let made = api.send(&admin, "POST", "/zones/example./edit", &edits, &matching).with(200);
    assert_eq!((&made["changed"], &made["from"], &made["to"]), (&true.into(), &1.into(), &2.into()));
    assert_eq!(made["changes"], tried["changes"]);
    assert_eq!(api.server.query(&["api.example", "A", "+short"]), "192.0.2.7\n");
    let conflict = api.send(&admin, "POST", "/zones/example/edit", &edits, &matching).with(412);
    assert_eq!(conflict["serial"], 2);
    let same = api.post(&admin, "/zones/example/edit", &edits).with(200);
    assert_eq!((&same["changed"], &same["to"]), (&false.into(), &2.into()));
    let add = json!({"op": "add", "name": "api.example", "type": "A", "records": ["192.0.2.8"]});
    assert_eq!(api.edit(&admin, "example", add).with(200)["to"], 3);
    let delete = json!({"op": "delete", "name": "api.example", "type": "A"});
    assert_eq!(api.edit(&admin, "example", delete).with(200)["to"], 4);
    for (entry, status, field) in [
        (
            json!({"op": "add", "name": "a.other", "type": "A", "records": ["192.0.2.1"]}),
            422,
            "edits[0].name",
        ),
        (
            json!({"op": "add", "name": "a.example", "type": "A", "records": ["192.0.2"]}),
            422,
            "edits[0].records[0]",
        ),
        (json!({"op": "add", "name": "a.example", "type": "NOPE", "records": ["x"]}), 400, "edits[0].type"),
        (
            json!({"op": "replace", "name": "a.example", "type": "A", "records": ["192.0.2.1"]}),
            400,
            "edits[0].ttl",
        ),
        (json!({"op": "swap", "name": "a.example", "type": "A"}), 400, "edits[0]"),
    ] {
        let refused = api.edit(&admin, "example", entry.clone()).with(status);
        assert_eq!(refused["field"], field, "{entry}: {refused}");
    }
    let history = api.get(&admin, "/zones/example/history").with(200);
    let versions = history["versions"].as_array().expect("a list");
    assert_eq!(versions.len(), 3, "{history}");
    assert!(versions.iter().all(|of| of["by"] == "edit by admin from 127.0.0.1"), "{history}");
    let difference = api.get(&admin, "/zones/example/diff?from=2&to=3").with(200);
    assert!(difference["changes"].to_string().contains("+\""), "{difference}");
    let of_program = "zone=example. client=127.0.0.1 token=\"admin\"";
    eventually("the changes are in the audit file", &api.server, || {
        api.audit().contains("serial_before=3 serial=4")
    });
    let audit = api.audit();
    let lines = |start: &str| audit.lines().filter(|line| line.contains(start)).count();
    assert_eq!(lines(&format!("zone edited {of_program}")), 3, "{audit}");
    assert_eq!(lines(&format!("edit refused {of_program}")), 1, "the other serial: {audit}");
    assert_eq!(lines("status=412"), 0, "that has one line: {audit}");
    assert_eq!(lines("status=422 reason="), 2, "{audit}");
}

#[test]
fn zones_are_created_listed_page_by_page_and_removed() {
    let admin = token("admin", ALL);
    let api = Api::start("", &[&admin]);
    for number in 0..5 {
        let records = ["@ 3600 NS ns1.example.", "www 60 A 192.0.2.9"];
        let zone = json!({"name": format!("z{number}.test"), "records": records});
        let made = api.post(&admin, "/zones", &zone);
        assert_eq!(made.status, 201, "{made:?}");
        assert_eq!(made.header("location"), Some(&*format!("/api/nomen/v1/zones/z{number}.test.")));
    }
    assert_eq!(api.server.query(&["www.z3.test", "A", "+short"]), "192.0.2.9\n");
    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let page = api.get(&admin, &format!("/zones?limit=2&search=test{after}")).with(200);
        assert_eq!(page["total"], 5);
        names.extend(page["zones"].as_array().expect("a list").iter().map(|zone| zone["name"].to_string()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(names, [0, 1, 2, 3, 4].map(|number| format!("\"z{number}.test.\"")));
    let again = api.post(&admin, "/zones", &json!({"name": "z1.test", "records": ["@ NS ns1.example."]}));
    assert_eq!(again.status, 409, "{again:?}");
    let empty = api.post(&admin, "/zones", &json!({"name": "none.test"})).with(400);
    assert_eq!(empty["field"], "records");
    let remove = |zone: &str| api.send(&admin, "DELETE", &format!("/zones/{zone}"), &json!({}), &[]);
    assert_eq!(remove("z3.test").status, 200);
    assert!(api.server.query(&["www.z3.test", "A"]).contains("REFUSED"));
    assert_eq!(api.get(&admin, "/zones/z3.test").status, 404);
    assert_eq!(remove("example").status, 409, "it is in the configuration");
    assert_eq!(remove("nosuch.test").status, 404);
    let mut names = Vec::new();
    let (mut next, mut pages) = (Some(String::new()), 0);
    while let Some(after) = next {
        let page = api.get(&admin, &format!("/zones/z1.test/records?limit=1{after}")).with(200);
        names.extend(page["rrsets"].as_array().expect("a list").iter().map(|set| set["type"].to_string()));
        next = page["next"].as_str().map(|next| format!("&after={next}"));
        pages += 1;
    }
    assert_eq!((names.len(), pages), (3, 2), "{names:?}");
}

#[test]
fn a_stream_has_the_queries_that_its_filter_lets_through() {
    let admin = token("admin", ALL);
    let api = Api::start("streams = 1\n", &[&admin]);
    let key = format!("X-API-Key: {}", admin.secret);
    let mut client = Command::new("curl")
        .args(["-s", "-N", "-H", &key, &api.url("/queries?name=ns1.example&type=A")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl");
    let mut lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), ": queries");
    assert_eq!(api.get(&admin, "/queries").status, 429);
    assert_eq!((api.limited("streams"), api.server.counter("nomen_api_streams")), (1, 1));
    // The query path has the observer as soon as the stream is open, and its event follows each query.
    let mut events = lines.filter_map(|line| Some(line.ok()?.strip_prefix("data: ")?.to_owned()));
    let asked = std::thread::scope(|scope| {
        let found = scope.spawn(|| events.next().expect("an event"));
        while !found.is_finished() {
            api.server.query(&["www.example", "A"]);
            api.server.query(&["Ns1.example", "AAAA"]);
            api.server.query(&["Ns1.example", "A"]);
        }
        found.join().expect("joined")
    });
    let event: Value = serde_json::from_str(&asked).expect("JSON");
    assert_eq!((&event["name"], &event["type"]), (&"Ns1.example.".into(), &"A".into()), "{event}");
    assert_eq!((&event["rcode"], &event["zone"]), (&"NOERROR".into(), &"example.".into()), "{event}");
    client.kill().expect("killed");
    client.wait().expect("waited");
    eventually("the place is free", &api.server, || api.server.counter("nomen_api_streams") == 0);
}

#[test]
fn the_api_over_tls_has_the_certificate_of_the_configuration() {
    let admin = token("admin", ALL);
    let folder = changes::folder(APEX);
    fs::write(folder.path().join("trusted.pem"), write_certificate(folder.path(), "localhost"))
        .expect("written");
    let api = Api::start_in(folder, "tls = true\n", &[&admin], CERTIFICATE);
    let (key, ca) =
        (format!("X-API-Key: {}", admin.secret), api.server.path("trusted.pem").display().to_string());
    let url = format!("https://localhost:{}/api/nomen/v1/self", api.at.port());
    let host = format!("localhost:{}:{}", api.at.port(), api.at.ip());
    let answered = curl(&["--cacert", &ca, "--resolve", &host, "-H", &key, &url]);
    assert_eq!(answered.with(200)["token"], "admin");
    let untrusted = curl(&["--resolve", &host, "-H", &key, &url]);
    assert_eq!(untrusted.status, 0, "the certificate is not trusted");
    assert_ne!(api.get(&admin, "/self").status, 200, "without TLS");
    eventually("it is counted", &api.server, || api.server.counter("nomen_api_tls_failures_total") == 2);
}

#[test]
fn a_reload_takes_tokens_away_and_adds_others() {
    let (first, second, third) = (token("first", ALL), token("second", ALL), token("third", ALL));
    let hash_of = |token: &Token| {
        let line = token.block.lines().find_map(|line| line.strip_prefix("hash = \"")).expect("a hash");
        line.trim_end_matches('"').to_owned()
    };
    let folder = changes::folder(APEX);
    fs::write(folder.path().join("second.hash"), format!("{}\n", hash_of(&second))).expect("written");
    let line = format!("hash = \"{}\"", hash_of(&second));
    let of_file = Token {
        secret: second.secret.clone(),
        block: second.block.replace(&line, "hash-file = \"second.hash\""),
    };
    let api = Api::start_in(folder, "", &[&first, &of_file], "");
    assert_eq!((api.get(&first, "/self").status, api.get(&second, "/self").status), (200, 200));
    api.server.reconfigure(&first.block, &third.block);
    api.server.reload();
    assert_eq!((api.get(&first, "/self").status, api.get(&third, "/self").status), (401, 200));
    // The file is read again, in the sandbox.
    fs::write(api.server.path("second.hash"), hash_of(&first)).expect("written");
    api.server.reload();
    assert_eq!(
        (api.get(&second, "/self").status, api.get(&first, "/self").with(200)["token"].clone()),
        (401, "second".into())
    );
    fs::write(api.server.path("second.hash"), "sha256:beef\n").expect("written");
    let report = api.server.reload_badly().to_string();
    assert!(report.contains("second.hash:1:1: a hash is `sha256:` and 64 hexadecimal digits"), "{report}");
    assert_eq!(api.get(&first, "/self").status, 200, "the tokens before stay");
}

/// Returns the schema that a reference names.
fn schema<'d>(document: &'d Value, reference: &Value) -> &'d Value {
    let name = reference["$ref"].as_str().and_then(|path| path.rsplit('/').next()).expect("a reference");
    &document["components"]["schemas"][name]
}

/// Checks that the members of a value are those of its schema.
fn check(document: &Value, schema_of: &Value, value: &Value, at: &str) {
    match value {
        Value::Array(rows) => {
            let items = &schema_of["items"];
            assert!(items.is_object() || rows.is_empty(), "{at}: a list that is not described");
            let items = if items["$ref"].is_string() { schema(document, items) } else { items };
            rows.iter().for_each(|row| check(document, items, row, at));
        }
        Value::Object(members) if schema_of["additionalProperties"] != true => {
            let Some(known) = schema_of["properties"].as_object() else { return };
            for (name, value) in members {
                let member = known.get(name).unwrap_or_else(|| panic!("{at}: `{name}` is not described"));
                let member = if member["$ref"].is_string() { schema(document, member) } else { member };
                if member["properties"].is_object() || member["items"]["$ref"].is_string() {
                    check(document, member, value, &format!("{at}.{name}"));
                }
            }
        }
        _ => {}
    }
}

#[test]
fn what_is_answered_is_what_the_document_describes() {
    let admin = token("admin", ALL);
    let more = "[resolver]\n[[resolver.forward]]\ndomain = \"fwd.test\"\nservers = [\"127.0.0.1@9\"]\n\
                [database]\nurl = \"postgresql://nomen@127.0.0.1:1/nomen\"\n";
    let api = Api::start_with("", &[&admin], more);
    let document = curl(&[&api.url("/openapi.json")]).with(200);
    assert_eq!(document["openapi"], "3.1.0");
    let edit = json!({"op": "add", "name": "x.example", "type": "TXT", "ttl": 5, "records": ["\"x\""]});
    assert_eq!(api.edit(&admin, "example", edit).status, 200);
    let arguments = |path: &str| match path {
        "/zones/{zone}/diff" => "?from=1&to=2",
        "/explain" | "/policy/test" => "?name=www.example",
        _ => "",
    };
    let mut answered = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let about = format!("{method} {path}");
            assert!(
                operation["summary"].as_str().is_some_and(|text| text.len() > 10),
                "{about}: no description"
            );
            let own = path.strip_prefix("/api/nomen/v1").expect("a path of the API");
            if method != "get" || own == "/queries" || own == "/openapi.json" {
                continue;
            }
            let got = api.get(&admin, &format!("{}{}", own.replace("{zone}", "example"), arguments(own)));
            let response = &operation["responses"]["200"]["content"];
            if got.status != 200 {
                let error = got.json();
                assert!([409, 404].contains(&got.status), "{about}: {got:?}");
                check(&document, schema(&document, &json!({"$ref": "#/Error"})), &error, &about);
                continue;
            }
            answered += 1;
            if response["text/plain"].is_object() {
                continue;
            }
            let described = schema(&document, &response["application/json"]["schema"]);
            assert!(described.is_object(), "{about}: no schema");
            check(&document, described, &got.json(), &about);
        }
    }
    assert!(answered >= 19, "{answered}");
    let near = api.get(&admin, "/zone").with(404)["error"].to_string();
    assert!(near.contains("did you mean /api/nomen/v1/zones?"), "{near}");
    let unknown = api.get(&admin, "/zones?serach=x").with(400);
    assert_eq!(
        (&unknown["field"], unknown["error"].to_string().contains("`search`")),
        (&"serach".into(), true)
    );
    let method = api.send(&admin, "POST", "/status", &json!({}), &[]);
    assert_eq!((method.status, method.header("allow")), (405, Some("GET")));
    assert_eq!(curl(&[&format!("http://{}/nowhere", api.at)]).status, 404);
    let url = format!("http://{}/api/v9/zones", api.at);
    assert_eq!(curl(&["-H", &format!("X-API-Key: {}", admin.secret), &url]).status, 404);
}

#[test]
fn the_listening_socket_of_the_api_may_be_passed() {
    let (dns, at) = (free_address(), free_address());
    let admin = token("admin", ALL);
    let more = format!("[api]\nlisten = [{}]\n{}", written(at), admin.block);
    let folder = activation::folder(&[dns], &more);
    let sockets = [
        UdpSocket::bind(dns).expect("bound").into(),
        TcpListener::bind(dns).expect("bound").into(),
        TcpListener::bind(at).expect("bound").into(),
    ];
    let command = activation::passing(sockets, "$$", &["serve", "--config", "nomen.toml"]);
    let server = Server::start_by(command, dns, folder);
    let api = Api { server, at };
    assert_eq!(api.get(&admin, "/self").with(200)["token"], "admin");
}

#[test]
fn faults_of_the_configuration_are_shown_at_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = |more: &str| {
        fs::write(folder.path().join("nomen.toml"), format!("[api]\n{more}")).expect("written");
        let checked = run(folder.path(), &["check", "--no-zones"]);
        assert!(!checked.status.success(), "{more}");
        text(&checked.stdout) + &text(&checked.stderr)
    };
    let token = "[[api.token]]\nname = \"a\"\nhash = \"sha256:";
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    for (more, words) in [
        ("listen = [\"192.0.2.1@8081\"]\n".to_owned(), &["nomen.toml:2:11", "tls = true"][..]),
        (
            "template = \"custmers\"\n[template.customers]\nfile = \"{zone}\"\n".into(),
            &["did you mean \"customers\"?"],
        ),
        (format!("{token}beef\"\nrights = []\n"), &["nomen.toml:4:8", "64 hexadecimal digits"]),
        (
            "[[api.token]]\nname = \"a\"\nrights = [{ right = \"read\" }]\n".into(),
            &["`hash` or `hash-file`", "nomen token a"],
        ),
        (format!("{token}{hash}\"\nrights = [{{ right = \"chnage\" }}]\n"), &["did you mean \"change\"?"]),
        (
            format!("{token}{hash}\"\nrights = [{{ right = \"read\", zone = [\"a\"] }}]\n"),
            &["unknown key `zone`", "did you mean `zones`?"],
        ),
        (
            format!("{token}{hash}\"\nrights = [{{ right = \"server\", zones = [\"a\"] }}]\n"),
            &["`zones` has no effect"],
        ),
        (
            format!("{token}{hash}\"\nexpires = \"soon\"\nrights = [{{ right = \"read\" }}]\n"),
            &["`soon` is no time"],
        ),
        (
            format!(
                "{token}{hash}\"\nrights = [{{ right = \"read\" }}]\n{token}{hash}\"\nrights = [{{ right = \"read\" }}]\n"
            ),
            &["token `a` is defined twice", "same hash"],
        ),
    ] {
        let shown = faults(&more);
        words.iter().for_each(|word| assert!(shown.contains(word), "{word} in\n{shown}"));
    }
}
