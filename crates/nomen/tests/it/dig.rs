//! `nomen query` in the place of dig: options that scripts pass to dig, compared with dig's own output where
//! it is installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{APEX, Server, free_address, nomen, run, text};

/// A zone with records whose output depends on options.
const RECORDS: &str = "@ MX 10 mail\nmail A 192.0.2.25\nwww A 192.0.2.80\nwww AAAA 2001:db8::80\n\
                       alias CNAME www\n_acme-challenge TXT \"a b\" \"c\"\n@ CAA 0 issue \"ca.example\"\n\
                       _sip._tcp SRV 1 2 5060 www\n@ 86399 DNSKEY 257 3 13 \
                       mdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+KkxLbxILfDLUT0rAK9iUzy1L53eKGQ==\n\
                       sub DS 12345 13 2 000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f\n\
                       sub NS ns.sub\nns.sub A 192.0.2.53\n1.2.0.192.in-addr.arpa.example PTR www\n";

/// Command lines of scripts for certificates, dynamic addresses, mail, monitoring and shells, whose output
/// contains no times.
const LINES: [&str; 28] = [
    "+short TXT _acme-challenge.example",
    "+short CAA example",
    "example MX +short",
    "+short -t A www.example",
    "-t SRV _sip._tcp.example +nocmd +nocomments +noquestion +nostats +noauthority +noadditional",
    "+nocmd example any +multiline +noall +answer",
    "+noall +answer A alias.example",
    "+noall +answer +additional example MX",
    "+time=2 +tries=1 +short www.example AAAA",
    "+timeout=2 +retry=0 +short alias.example",
    "+short +noall +answer www.example",
    "-4 +short www.example",
    "-q www.example -t AAAA +short",
    "-r -m +short www.example",
    "-b 127.0.0.1 +short www.example",
    "+nocomm +nostat +noques www.example +nocmd +noadd +noauth",
    "+nocrypto +noall +answer example DNSKEY",
    "+rrcomments +nosplit +noall +answer example DNSKEY",
    "+split=16 +noall +answer sub.example DS",
    "+nosplit +nocrypto +short sub.example DS",
    "+ttlunits +noall +answer +nosplit example DNSKEY",
    "+nottlid +noclass +noall +answer www.example",
    "+unknownformat +noall +answer www.example AAAA",
    "+expandaaaa +noall +answer www.example AAAA",
    "+nosearch +norecurse +noidnout +noedns +nocookie +tcp +short www.example",
    "+cdflag +noadflag +aaonly +zflag +bufsize=512 +short www.example",
    "+ednsopt=65001:c0ffee +ednsflags=0x0 +short www.example",
    "+short www.example mail.example",
];

/// Widely used programs that call dig: the arguments of each, without server and port, and what it searches
/// in the output; empty if it uses all of it.
const SCRIPTS: [(&str, &[(&str, &str)]); 10] = [
    (
        "testssl.sh",
        &[
            ("+short -t a www.example", ""),
            ("-r +short +timeout=2 +tries=2 +noidnout -t aaaa www.example", ""),
            ("+short -t a +notcp www.example", ""),
            ("example type257 +short", ""),
            ("+short -t MX example", ""),
            ("-x 192.0.2.80 +noall +answer", "PTR"),
        ],
    ),
    (
        "getssl",
        &[
            ("TXT _acme-challenge.example", "IN TXT"),
            ("ANY _acme-challenge.example", "IN TXT"),
            ("NS example", "IN NS"),
            ("SOA example", "IN SOA"),
        ],
    ),
    ("monitoring-plugins check_dig", &[("www.example -t A +retry=2 +time=5", ";; answer section:")]),
    ("Pi-hole debug log", &[("+tries=1 +time=2 -4 www.example +short A", "")]),
    (
        "mailcow",
        &[("A www.example +short", ""), ("AAAA www.example +short", ""), ("example +dnssec", ";; flags:")],
    ),
    (
        "Kubernetes end-to-end tests",
        &[
            ("+notcp +noall +answer +search www.example A", ""),
            ("+tcp +noall +answer +search _sip._tcp.example SRV", ""),
        ],
    ),
    ("dnsperftest", &[("+tries=1 +time=2 +stats www.example", ";; query time:")]),
    ("neofetch and Powerlevel10k", &[("+time=1 +tries=1 +short www.example", "")]),
    ("Lynis", &[("+noall +time=3 +retry=0 www.example", ""), ("+short +time=1 www.example", "")]),
    (
        "hooks of certbot and dehydrated",
        &[
            ("+short TXT _acme-challenge.example", ""),
            ("+short NS example", ""),
            ("-t txt +noall +answer _acme-challenge.example", ""),
        ],
    ),
];

/// Returns the lines as lower-case words, without dig's alignment and without empty lines.
fn words(output: &str) -> Vec<String> {
    let lines = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).map(|line| line.to_lowercase()).collect()
}

/// Returns the output of dig without a file of default options; `None` if it is not installed.
fn dig(words: &[&str]) -> Option<String> {
    dig_output(words).map(|output| text(&output.stdout))
}

/// Like `dig`, with the exit status.
fn dig_output(words: &[&str]) -> Option<Output> {
    match Command::new("dig").env("HOME", "/nonexistent").args(words).output() {
        Ok(output) => Some(output),
        Err(_) => {
            testkit::left_out("dig is missing: its output is compared with nothing");
            None
        }
    }
}

#[test]
fn options_of_scripts_for_dig_were_unknown() {
    let server = Server::start(&format!("{APEX}{RECORDS}"), "");
    let (at, port) = (format!("@{}", server.address.ip()), server.address.port().to_string());
    for line in LINES {
        let all: Vec<&str> = [&at[..], "-p", &port].into_iter().chain(line.split(' ')).collect();
        let output = run(Path::new("."), &[&["query"], &all[..]].concat());
        let (said, fault) = (text(&output.stdout), text(&output.stderr));
        assert_eq!((output.status.code(), fault.as_str()), (Some(0), ""), "{line}");
        assert!(!said.is_empty(), "{line}");
        if let Some(theirs) = dig(&all).filter(|_| !line.contains("+multiline")) {
            assert_eq!(words(&said), words(&theirs), "{line}");
        }
    }
}

#[test]
fn yaml_has_the_keys_of_dig() {
    let server = Server::start(&format!("{APEX}{RECORDS}"), "");
    let (at, port) = (format!("@{}", server.address.ip()), server.address.port().to_string());
    let all = [
        &at[..],
        "-p",
        &port,
        "+yaml",
        "+nocookie",
        "+noadflag",
        "+nosplit",
        "www.example",
        "AAAA",
        "+qid=7",
    ];
    let said = text(&run(Path::new("."), &[&["query"], &all[..]].concat()).stdout);
    assert!(said.contains("        - 'www.example. 60 IN AAAA 2001:db8::80'\n"), "{said}");
    let keys = |output: &str| -> Vec<String> {
        let lines = output.lines().filter(|line| !line.contains("_time:"));
        // dig 9.18 leaves some values unquoted, and ends a list of flags differently.
        lines
            .map(|line| line.replace('\'', "").trim_end().to_owned())
            .filter(|line| !line.is_empty())
            .collect()
    };
    if let Some(theirs) = dig(&all) {
        assert_eq!(keys(&said), keys(&theirs));
    }
}

#[test]
fn what_does_not_exist_here_is_refused_with_what_does() {
    for (word, instead) in [
        ("+https", "UDP, TCP, TLS and QUIC"),
        ("+showsearch", "+search"),
        ("+sigchase", "+chase"),
        ("+ttl", "+ttlunits"),
    ] {
        let output = run(Path::new("."), &["query", "@127.0.0.1", "example", word]);
        let fault = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{word}: {fault}");
        assert!(fault.contains(instead), "{word}: {fault}");
    }
    let output = run(Path::new("."), &["query", "@::1", "-b", "127.0.0.1", "example"]);
    assert!(text(&output.stderr).contains("the addresses are of two families"), "{}", text(&output.stderr));
}

#[test]
fn the_header_is_as_options_want_it() {
    let server = Server::start(APEX, "");
    let asked = |words: &[&str]| server.query(words);
    let notify = asked(&["example", "SOA", "+opcode=status", "+qid=4711"]);
    assert!(notify.contains("opcode: STATUS, status: NOTIMP, id: 4711"), "{notify}");
    let bare = asked(&["+header-only"]);
    assert!(bare.contains("status: FORMERR") && bare.contains("QUERY: 0"), "{bare}");
    let from = asked(&["ns1.example", "+short", "+identify"]);
    let server = format!("192.0.2.1 from server {} in ", server.address.ip());
    assert!(from.starts_with(&server), "{from}");
    let shown = asked(&["ns1.example", "+cmd"]);
    assert!(shown.starts_with("; <<>> nomen ") && shown.contains(" ns1.example +cmd\n"), "{shown}");
}

/// Returns the lines that a script searches for, or all records if it searches for nothing, sorted: records
/// of one name come in any order.
fn looked_for(output: &[u8], wanted: &str) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    // Times and message IDs differ from query to query.
    let is_it = |line: &String| match wanted.as_str() {
        "" => !line.starts_with(';'),
        _ => line.contains(&wanted),
    };
    let mut lines: Vec<String> = words(&text(output)).into_iter().filter(is_it).collect();
    if wanted == ";; query time:" {
        lines.iter_mut().for_each(|line| *line = line.replace(|c: char| c.is_ascii_digit(), ""));
    }
    lines.sort();
    lines
}

#[test]
fn scripts_that_call_dig_find_in_the_output_what_they_look_for() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), format!("{APEX}{RECORDS}")).expect("written");
    let reverse = format!("{APEX}80 PTR www.example.\n");
    fs::write(folder.path().join("2.0.192.in-addr.arpa.zone"), reverse).expect("written");
    let server = Server::start_in(folder, "rotate-addresses = false\n", "");
    let (at, port) = (format!("@{}", server.address.ip()), server.address.port().to_string());
    for (script, calls) in SCRIPTS {
        for (call, wanted) in calls {
            let all: Vec<&str> = [&at[..], "-p", &port].into_iter().chain(call.split(' ')).collect();
            let ours = run(Path::new("."), &[&["query", "--dig"], &all[..]].concat());
            assert_eq!((ours.status.code(), text(&ours.stderr).as_str()), (Some(0), ""), "{script}: {call}");
            let found = looked_for(&ours.stdout, wanted);
            // Lynis uses only the exit status.
            assert_eq!(found.is_empty(), call.starts_with("+noall +time"), "{script}: {call}");
            if let Some(theirs) = dig_output(&all) {
                assert_eq!(found, looked_for(&theirs.stdout, wanted), "{script}: {call}");
                assert_eq!(ours.status.code(), theirs.status.code(), "{script}: {call}");
            }
        }
    }
}

#[test]
fn the_exit_status_for_scripts_was_not_that_of_dig() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    fs::write(folder.path().join("broken.test.zone"), "@ A x\n").expect("written");
    fs::write(folder.path().join("queries"), "ns1.example\nnosuch.example\n").expect("written");
    let server = Server::start_in(folder, "", "");
    let (ip, closed) = (server.address.ip(), free_address());
    let (open, closed) =
        (format!("@{ip} -p {}", server.address.port()), format!("@{} -p {}", closed.ip(), closed.port()));
    let here = server.folder.path();
    let (good, missing) = (here.join("queries"), here.join("nowhere"));
    let link = here.join("dig");
    symlink(nomen(&[]).get_program(), &link).expect("a link");
    for (line, status) in [
        (format!("{open} ns1.example"), 0),
        (format!("{open} +short nosuch.example"), 0),
        // REFUSED and SERVFAIL are responses.
        (format!("{open} www.elsewhere.org"), 0),
        (format!("{open} +short www.broken.test"), 0),
        (format!("{open} example AXFR"), 0),
        (format!("{open} -f {}", good.display()), 0),
        (format!("{open} -f {}", missing.display()), 8),
        (format!("{open} +nosuchoption ns1.example"), 1),
        (format!("{open} -Z ns1.example"), 1),
        (format!("{closed} +tries=1 +time=1 ns1.example"), 9),
        (format!("{closed} +tries=1 +time=1 +tcp ns1.example"), 9),
        ("-h".to_owned(), 0),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ours = run(here, &[&["query", "--dig"], &words[..]].concat());
        assert_eq!(ours.status.code(), Some(status), "{line}: {}", text(&ours.stderr));
        let linked = Command::new(&link).args(&words).output().expect("the link runs");
        assert_eq!(linked.status.code(), Some(status), "{line}, as dig: {}", text(&linked.stderr));
        assert_eq!(linked.stdout.is_empty(), ours.stdout.is_empty(), "{line}");
        if let Some(theirs) = dig_output(&words) {
            assert_eq!(theirs.status.code(), Some(status), "{line}: {}", text(&theirs.stdout));
        }
    }
    // Without --dig the exit statuses are nomen's own.
    let own = |line: &str| {
        run(here, &[&["query"], &line.split(' ').collect::<Vec<_>>()[..]].concat()).status.code()
    };
    assert_eq!(own(&format!("{open} www.elsewhere.org")), Some(1));
    assert_eq!(own(&format!("{closed} +tries=1 +time=1 ns1.example")), Some(3));
    assert_eq!(own(&format!("{open} +nosuchoption ns1.example")), Some(2));
    // Without arguments it asks for the root servers.
    let alone = Command::new(&link).args(open.split(' ')).output().expect("the link runs");
    assert!(words(&text(&alone.stdout)).contains(&";. in ns".to_owned()), "{}", text(&alone.stdout));
}

/// Runs `nomen query` with this text as `/etc/resolv.conf`; `None` where a mount namespace cannot be created.
fn query_with_resolvers(folder: &Path, conf: &str, words: &[&str]) -> Option<String> {
    let file = folder.join("resolv.conf");
    fs::write(&file, conf).expect("written");
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args([
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            "mount --bind \"$1\" /etc/resolv.conf && shift && \"$@\"",
            "sh",
        ]);
        command.arg(&file);
        command
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        testkit::left_out("mount namespaces cannot be had here");
        return None;
    }
    let output = unshare().arg(nomen(&[]).get_program()).arg("query").args(words).output().expect("it runs");
    Some(text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn without_a_server_those_of_resolv_conf_are_asked() {
    let server = Server::start(&format!("{APEX}{RECORDS}"), "");
    let (ip, port) = (server.address.ip(), server.address.port().to_string());
    let folder = tempfile::tempdir().expect("a folder");
    // No server listens at the first address.
    let conf = format!("nameserver 127.0.0.254\nnameserver {ip}\nsearch nowhere.test example\n");
    let ask = |words: &[&str]| {
        let words = [&["-p", &port, "+tries=1", "+time=60"], words].concat();
        query_with_resolvers(folder.path(), &conf, &words)
    };
    let Some(found) = ask(&["www.example", "+short"]) else { return };
    assert!(found.contains("192.0.2.80\n") && found.contains("connection refused"), "{found}");
    // The search list only completes names without a dot, and only on request. The first name of the list is
    // refused here, which does not mean that it does not exist.
    let conf = format!("nameserver {ip}\nsearch sub.example example\n");
    let ask = |words: &[&str]| {
        let words = [&["-p", &port, "+tries=1", "+time=60"], words].concat();
        query_with_resolvers(folder.path(), &conf, &words).expect("as before")
    };
    assert!(ask(&["mail", "A"]).contains("status: REFUSED"));
    let found = ask(&["mail", "A", "+domain=example", "+short"]);
    assert_eq!(found, "192.0.2.25\n");
    let found = ask(&["_tcp", "A", "+search"]);
    assert!(found.contains(";_tcp.sub.example."), "a referral is an answer: {found}");
    let conf = format!("nameserver {ip}\nsearch www.example example\n");
    let found = query_with_resolvers(folder.path(), &conf, &["-p", &port, "mail", "A", "+search", "+short"]);
    assert_eq!(found.as_deref(), Some("192.0.2.25\n"), "mail.www.example. does not exist");
    // A name with at least `ndots` dots is tried unchanged first.
    let found =
        query_with_resolvers(folder.path(), &conf, &["-p", &port, "mail.example", "A", "+search", "+short"]);
    assert_eq!(found.as_deref(), Some("192.0.2.25\n"));
}
