//! `nomen query` in the place of dig: options that scripts give to dig, with dig's own output beside it where dig is installed.

use std::path::Path;
use std::process::Command;

use crate::support::{APEX, Server, run, text};

/// A zone with records whose form options change.
const RECORDS: &str = "@ MX 10 mail\nmail A 192.0.2.25\nwww A 192.0.2.80\nwww AAAA 2001:db8::80\n\
                       alias CNAME www\n_acme-challenge TXT \"a b\" \"c\"\n@ CAA 0 issue \"ca.example\"\n\
                       _sip._tcp SRV 1 2 5060 www\n@ 86399 DNSKEY 257 3 13 \
                       mdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+KkxLbxILfDLUT0rAK9iUzy1L53eKGQ==\n\
                       sub DS 12345 13 2 000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f\n\
                       sub NS ns.sub\nns.sub A 192.0.2.53\n1.2.0.192.in-addr.arpa.example PTR www\n";

/// Command lines of scripts for certificates, dynamic addresses, mail, monitoring and shells, whose output has no times in it.
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

/// Words without their distances, which dig fills with tabs and blanks, and without empty lines; hexadecimal in one case.
fn words(output: &str) -> Vec<String> {
    let lines = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).map(|line| line.to_lowercase()).collect()
}

/// Runs dig, without a file of options of its own; `None` if it is not installed.
fn dig(words: &[&str]) -> Option<String> {
    match Command::new("dig").env("HOME", "/nonexistent").args(words).output() {
        Ok(output) => Some(text(&output.stdout)),
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
        // dig 9.18 leaves some values without quotes, and ends a list of flags in other ways.
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
    for (word, instead) in
        [("+tls", "UDP and TCP"), ("+search", "whole name"), ("+sigchase", "+chase"), ("+ttl", "+ttlunits")]
    {
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
