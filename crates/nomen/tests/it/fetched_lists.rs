//! Block lists with a URL: a small HTTP server has the lists, and a second nomen is the upstream server.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use crate::hostile::peak;
use crate::metrics::http;
use crate::support::{APEX, Server, eventually, free_address, run, text, written};

/// A server of lists. It stops when it is dropped.
struct ListServer {
    address: SocketAddr,
    state: Arc<Mutex<ListState>>,
    thread: Option<JoinHandle<()>>,
}

struct ListState {
    status: String,
    body: String,
    requests: Vec<String>,
    stops: bool,
}

impl ListServer {
    fn start_at(address: SocketAddr, body: &str) -> Self {
        Self::serve(address, body, |mut stream, state| reply(&mut stream, state))
    }

    /// A server with TLS, whose certificate is for 127.0.0.1.
    fn start_tls(body: &str) -> Self {
        let certificate =
            CertificateDer::from_pem_slice(data("server.pem").as_bytes()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(data("server.key").as_bytes()).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("versions").with_no_client_auth();
        let config = Arc::new(builder.with_single_cert(vec![certificate], key).expect("settings"));
        Self::serve(SocketAddr::from(([127, 0, 0, 1], 0)), body, move |stream, state| {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut stream = StreamOwned::new(connection, stream);
            reply(&mut stream, state);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        })
    }

    fn serve(
        address: SocketAddr,
        body: &str,
        mut reply: impl FnMut(TcpStream, &Mutex<ListState>) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("a free address");
        let address = listener.local_addr().expect("its address");
        let state =
            ListState { status: "200 OK".into(), body: body.into(), requests: Vec::new(), stops: false };
        let state = Arc::new(Mutex::new(state));
        let of_thread = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if of_thread.lock().expect("no panic").stops {
                    return;
                }
                reply(stream, &of_thread);
            }
        });
        ListServer { address, state, thread: Some(thread) }
    }

    fn start(body: &str) -> Self {
        Self::start_at(free_address(), body)
    }

    fn url(&self) -> String {
        format!("http://{}/ads.txt", self.address)
    }

    /// From now on, the server replies with this.
    fn set(&self, status: &str, body: &str) {
        let mut state = self.state.lock().expect("no panic");
        (state.status, state.body) = (status.into(), body.into());
    }

    fn requests(&self) -> Vec<String> {
        self.state.lock().expect("no panic").requests.clone()
    }
}

impl Drop for ListServer {
    fn drop(&mut self) {
        self.state.lock().expect("no panic").stops = true;
        drop(TcpStream::connect(self.address));
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_some_and(|ended| ended.is_ok()));
    }
}

/// A file of certificates or keys, which the tests of `fetch` have.
fn data(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fetch/tests/data");
    fs::read_to_string(folder.join(name)).expect("a file")
}

/// Replies to one request. The entity tag is the length of the text.
fn reply(stream: &mut (impl Read + Write), state: &Mutex<ListState>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read_exact(&mut byte).is_err() {
            return;
        }
        request.push(byte[0]);
    }
    let mut state = state.lock().expect("no panic");
    let request = text(&request);
    let ListState { status, body, .. } = &*state;
    let tag = format!("\"{}\"", body.len());
    let response = match request.contains(&format!("if-none-match: {tag}\r\n")) && status == "200 OK" {
        true => format!("HTTP/1.1 304 Not Modified\r\nETag: {tag}\r\n\r\n"),
        false => {
            format!("HTTP/1.1 {status}\r\nETag: {tag}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        }
    };
    state.requests.push(request);
    let _ = stream.write_all(response.as_bytes());
}

/// The configuration of a forwarder to `upstream` with the list `ads` at a URL.
fn config(upstream: SocketAddr, url: &str, keys: &str) -> String {
    format!(
        "[resolver]\nvalidate = false\n[[resolver.forward]]\nservers = [{}]\n\
         [[policy.list]]\nname = \"ads\"\nurl = \"{url}\"\nanswer = \"null\"\n{keys}",
        written(upstream)
    )
}

const STATE: &str = "state-dir = \"state\"\n";

fn start_in(folder: TempDir, url: &str, keys: &str) -> Server {
    Server::start_in(folder, STATE, &config(free_address(), url, keys))
}

fn start(url: &str, keys: &str) -> Server {
    start_in(tempfile::tempdir().expect("a folder"), url, keys)
}

fn is_blocked(server: &Server, name: &str) -> bool {
    server.ctl_json(&["policy", "test", name])["result"] == "blocked"
}

fn wait_until_blocked(server: &Server, name: &str) {
    eventually("the list is in force", server, || is_blocked(server, name));
}

/// Refreshes the list, and returns the outcome.
fn refresh(server: &Server) -> (Option<i32>, serde_json::Value) {
    let output = server.ctl(&["--json", "policy", "refresh", "ads"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.code(), answer["lists"][0].clone())
}

/// The files of stored lists.
fn stored(folder: &Path) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(folder.join("state/lists")) else { return Vec::new() };
    files.map(|file| file.expect("a file").path()).collect()
}

#[test]
fn a_list_is_fetched_and_in_force_after_a_restart_without_its_server() {
    let lists = ListServer::start("||ads.example^\n");
    let url = lists.url();
    let server = start(&url, "");
    wait_until_blocked(&server, "x.ads.example");
    assert_eq!(server.query(&["x.ads.example", "+short"]), "0.0.0.0\n");
    eventually("the list is stored", &server, || {
        server.ctl_json(&["policy", "test", "x.ads.example"])["line"] == 1
    });
    drop(lists);
    let server = start_in(server.stop(), &url, "");
    assert_eq!(server.query(&["x.ads.example", "+short"]), "0.0.0.0\n", "at once");
    let status = server.ctl_json(&["policy", "status"])[0].clone();
    assert!(status["confirmed"].is_u64() && status["fault"].is_null(), "{status}");
    assert!(status["attempted"].is_null(), "it is fresh: {status}");
    let (code, outcome) = refresh(&server);
    assert_eq!((code, &outcome["result"]), (Some(1), &"failed".into()), "{outcome}");
    assert!(is_blocked(&server, "x.ads.example"), "the last good version");
    let said = text(&server.ctl(&["policy", "status"]).stdout);
    assert!(said.contains("fetched or confirmed: 20") && said.contains("Connection refused"), "{said}");
}

#[test]
fn a_list_by_https_needs_a_certificate_of_a_trusted_ca() {
    let lists = ListServer::start_tls("||ads.example^\n");
    let url = format!("https://{}/ads.txt", lists.address);
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["ca.pem", "other-ca.pem"] {
        fs::write(folder.path().join(name), data(name)).expect("written");
    }
    let server = start_in(folder, &url, "ca-file = \"other-ca.pem\"\n");
    let (code, outcome) = refresh(&server);
    assert_eq!((code, &outcome["result"]), (Some(1), &"failed".into()), "{outcome}");
    let fault = outcome["fault"].to_string().to_lowercase();
    assert!(fault.contains("certificate"), "{fault}");
    assert!(!is_blocked(&server, "x.ads.example") && lists.requests().is_empty());
    server.reconfigure("other-ca.pem", "ca.pem");
    server.reload();
    let (code, outcome) = refresh(&server);
    assert_eq!((code, &outcome["fault"]), (Some(0), &serde_json::Value::Null), "{outcome}");
    assert!(is_blocked(&server, "x.ads.example"));
    // By the file that SSL_CERT_FILE names, in place of those of the system.
    let folder = tempfile::tempdir().expect("a folder");
    let ca = server.path("ca.pem").display().to_string();
    let more = config(free_address(), &url, "");
    let other =
        Server::start_with_environment(free_address(), folder, STATE, &more, &[("SSL_CERT_FILE", &ca)]);
    wait_until_blocked(&other, "x.ads.example");
    assert!(lists.requests().iter().all(|request| request.starts_with("GET /ads.txt HTTP/1.1")));
}

#[test]
fn an_old_list_is_in_force_at_once_and_fetched_then() {
    let lists = ListServer::start("ads.example\n");
    let server = start(&lists.url(), "");
    wait_until_blocked(&server, "ads.example");
    let folder = server.stop();
    let [file] = &stored(folder.path())[..] else { panic!("one file") };
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000);
    fs::File::options().write(true).open(file).and_then(|file| file.set_modified(old)).expect("set");
    let server = start_in(folder, &lists.url(), "");
    assert!(is_blocked(&server, "ads.example"));
    eventually("the server confirms it", &server, || {
        server.ctl_json(&["policy", "status"])[0]["confirmed"].as_u64().is_some_and(|at| at > 1_600_000_000)
    });
    eventually("the file has the new time", &server, || {
        fs::metadata(file).and_then(|about| about.modified()).expect("a time") > old
    });
    let requests = lists.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[1].contains("if-none-match: \"12\""), "{}", requests[1]);
}

#[test]
fn a_damaged_stored_list_is_not_used() {
    let lists = ListServer::start("ads.example\n");
    let url = lists.url();
    let server = start(&url, "");
    wait_until_blocked(&server, "ads.example");
    drop(lists);
    let folder = server.stop();
    let [file] = &stored(folder.path())[..] else { panic!("one file") };
    let damaged = fs::read_to_string(file).expect("text").replace("ads.example", "bad.example");
    fs::write(file, damaged).expect("written");
    let check = run(folder.path(), &["check", "nomen.toml"]);
    let said = text(&check.stderr);
    assert!(check.status.success() && said.contains("its checksum is wrong"), "{said}");
    assert!(said.contains("is fetched without TLS"), "{said}");
    let server = start_in(folder, &url, "");
    assert!(!is_blocked(&server, "ads.example") && !is_blocked(&server, "bad.example"));
    server.wait_for_log("its checksum is wrong", 1);
}

#[test]
fn a_refresh_takes_good_lists_alone() {
    let lists = ListServer::start("ads.example\n");
    let server = start(&lists.url(), "max-size = 2000\nmax-lines = 3\n");
    wait_until_blocked(&server, "ads.example");
    assert_eq!(
        refresh(&server),
        (
            Some(0),
            serde_json::json!({
                "name": "ads", "result": "unchanged", "rules": 1, "fault": null,
            })
        )
    );
    lists.set("200 OK", "ads.example\nmore.example\n");
    let (code, outcome) = refresh(&server);
    assert_eq!((code, &outcome["result"], &outcome["rules"]), (Some(0), &"updated".into(), &2.into()));
    assert!(is_blocked(&server, "more.example"));
    for (status, body, words) in [
        ("200 OK", "<!DOCTYPE html>\n<html>\n<h1>Sorry</h1>\n", "not a list"),
        ("200 OK", &"x".repeat(2001), "larger than the limit of 2000 bytes"),
        ("200 OK", "a.a\nb.b\nc.c\nd.d\n", "4 lines, more than `max-lines` (3)"),
        ("200 OK", "", "the list is empty"),
        ("404 Not Found", "none.example\n", "404 Not Found"),
    ] {
        lists.set(status, body);
        let (code, outcome) = refresh(&server);
        assert_eq!(code, Some(1), "{outcome}");
        assert!(outcome["fault"].as_str().is_some_and(|fault| fault.contains(words)), "{words}: {outcome}");
        assert!(is_blocked(&server, "more.example"), "the last good version is in force");
    }
    let said = server.ctl(&["policy", "refresh"]);
    let (out, err) = (text(&said.stdout), text(&said.stderr));
    assert!(out.starts_with("ads: failed: ") && err.contains("cannot be refreshed: 1"), "{out}{err}");
    assert!(text(&server.ctl(&["policy", "refresh", "no"]).stderr).contains("there is no list no"));
    let url = lists.url();
    drop(lists);
    let server = start_in(server.stop(), &url, "max-size = 2000\nmax-lines = 3\n");
    assert!(is_blocked(&server, "more.example"), "and on disk");
}

/// A server of lists that has ten million names costs the text of the list, and no more. Long tests
/// (`NOMEN_LONG_TESTS`) have so many, others a thousand.
#[test]
fn a_list_of_very_many_lines_is_refused_and_the_last_good_version_stays() {
    let is_long = std::env::var_os("NOMEN_LONG_TESTS").is_some_and(|long| !long.is_empty());
    let (lines, most) = if is_long { (10_000_000, 5_000_000) } else { (1000, 999) };
    let lists = ListServer::start("ads.example\n");
    let keys = if is_long { String::new() } else { format!("max-lines = {most}\n") };
    let server = start(&lists.url(), &keys);
    wait_until_blocked(&server, "ads.example");
    let before = peak(&server);
    lists.set("200 OK", &(0..lines).map(|n| format!("{n}.b.b\n")).collect::<String>());
    let (code, outcome) = refresh(&server);
    assert_eq!((code, &outcome["result"]), (Some(1), &"failed".into()), "{outcome}");
    let fault = outcome["fault"].as_str().expect("a fault");
    assert_eq!(fault, format!("{lines} lines, more than `max-lines` ({most})"));
    assert!(is_blocked(&server, "ads.example") && !is_blocked(&server, "1.b.b"), "the last good version");
    // The text has 13 bytes a line; a table of names would take 17 more, and its making 16.
    assert!(peak(&server) < before + 2 * 13 * lines + (32 << 20), "{} {before}", peak(&server));
}

/// A refresh used to compile the rules of all lists again, whatever it found.
#[test]
fn a_refresh_compiles_no_list_that_has_not_changed() {
    let lists = ListServer::start("ads.example\n");
    let zone =
        "$TTL 300\n@ SOA a. b. 1 2 3 4 5\n NS a.\n*.zone.example CNAME . ; below\nfine.example CNAME *.\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("zone.txt"), zone).expect("written");
    let more = "[[policy.list]]\nname = \"zone\"\nfile = \"zone.txt\"\n";
    let server = start_in(folder, &lists.url(), more);
    wait_until_blocked(&server, "ads.example");
    assert!(is_blocked(&server, "x.zone.example") && !is_blocked(&server, "zone.example"));
    assert!(server.query(&["fine.example"]).contains("status: NOERROR"));
    let count = |words: &str| server.log().matches(words).count();
    let counts = || (count("policy rules are compiled"), count("policy rules are changed"));
    let (compiled, changed) = counts();
    let result = |list: &str| server.ctl_json(&["policy", "refresh", list])["lists"][0]["result"].clone();
    // 304, the file as it was, and the same text as another file.
    assert_eq!((result("ads"), result("zone")), ("unchanged".into(), "unchanged".into()));
    fs::remove_file(server.path("zone.txt")).expect("removed");
    server.write("zone.txt", zone);
    assert_eq!(result("zone"), "unchanged");
    server.write("zone.txt", zone);
    server.reload();
    assert_eq!(counts(), (compiled, changed), "{}", server.log());
    // What changes in one list compiles no rules of others.
    server.write("zone.txt", &zone.replace("*.zone", "other"));
    server.reload();
    assert!(is_blocked(&server, "other.example") && !is_blocked(&server, "x.zone.example"));
    lists.set("200 OK", "late.example\nads2.example\n");
    assert_eq!(result("ads"), "updated");
    assert!(is_blocked(&server, "late.example") && !is_blocked(&server, "ads.example"));
    assert!(is_blocked(&server, "other.example"), "of the other list");
    assert_eq!(counts(), (compiled, changed + 2), "{}", server.log());
}

#[test]
fn a_refresh_reads_files_too() {
    let upstream = free_address();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("ads.txt"), "ads.example\n").expect("written");
    let config = config(upstream, "", "").replace("url = \"\"", "file = \"ads.txt\"");
    let server = Server::start_in(folder, "", &config);
    assert_eq!(refresh(&server).1["result"], "unchanged");
    server.write("ads.txt", "late.example\n");
    assert_eq!(refresh(&server).1["result"], "updated");
    assert!(is_blocked(&server, "late.example") && !is_blocked(&server, "ads.example"));
    fs::remove_file(server.path("ads.txt")).expect("removed");
    let (code, outcome) = refresh(&server);
    assert_eq!((code, &outcome["fault"]), (Some(1), &"there is no such file".into()));
    assert!(is_blocked(&server, "late.example"));
}

#[test]
fn the_server_of_a_list_is_resolved_by_nomen_even_if_a_list_blocks_it() {
    let upstream = Server::start(&format!("{APEX}lists CNAME host\nhost A 127.0.0.1\n"), "");
    let address = SocketAddr::new([127, 0, 0, 1].into(), free_address().port());
    let lists = ListServer::start_at(address, "||example^\n");
    let url = format!("http://lists.example:{}/", address.port());
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_in(folder, "", &config(upstream.address, &url, ""));
    wait_until_blocked(&server, "lists.example");
    let (code, outcome) = refresh(&server);
    assert_eq!((code, &outcome["result"]), (Some(0), &"unchanged".into()), "{outcome}");
    assert!(lists.requests()[0].contains(&format!("host: lists.example:{}\r\n", address.port())));
    server.wait_for_log("is not stored on disk", 1);
}

#[test]
fn a_reload_fetches_from_a_new_url_and_removes_what_is_stored_of_others() {
    let (one, two) = (ListServer::start("ads.example\n"), ListServer::start("other.example\n"));
    let server = start(&one.url(), "");
    wait_until_blocked(&server, "ads.example");
    server.reconfigure(&one.url(), &two.url());
    server.reload();
    wait_until_blocked(&server, "other.example");
    assert!(!is_blocked(&server, "ads.example"));
    eventually("one file is left", &server, || stored(server.path("").as_path()).len() == 1);
    let text = fs::read_to_string(server.path("nomen.toml")).expect("read");
    let without = text.split("[[policy.list]]").next().expect("a part");
    server.write("nomen.toml", without);
    server.reload();
    assert_eq!(server.ctl_json(&["policy", "status"]), serde_json::json!([]));
    eventually("no file is left", &server, || stored(server.path("").as_path()).is_empty());
    assert_eq!((one.requests().len(), two.requests().len()), (1, 1));
}

#[test]
fn fetches_have_metrics() {
    let (metrics, lists) = (free_address(), ListServer::start("ads.example\n"));
    let server = start(&lists.url(), &format!("[metrics]\nlisten = {}\n", written(metrics)));
    wait_until_blocked(&server, "ads.example");
    refresh(&server);
    lists.set("200 OK", "<html>\n");
    refresh(&server);
    lists.set("500 Internal Server Error", "");
    refresh(&server);
    let page = http(metrics, "GET /metrics");
    for outcome in ["updated", "unchanged", "refused", "failed"] {
        let line = format!("nomen_policy_list_fetches_total{{list=\"ads\",outcome=\"{outcome}\"}} 1");
        assert!(page.lines().any(|found| found.trim_end() == line), "{line}\n{page}");
    }
    let line = "nomen_policy_list_confirmed_timestamp_seconds{list=\"ads\"} 1";
    assert!(page.contains(line) && page.contains("nomen_policy_list_failed{list=\"ads\"} 1"), "{page}");
}
