//! Limits on replies and secrets of cookies.

use super::policy::reported;
use super::*;

const SECRET: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
const OTHER: &str = "0123456789abcdef0123456789abcdef";

fn secrets(found: &Converted) -> Option<&str> {
    found.toml.lines().find(|line| line.starts_with("cookie-secrets"))
}

#[test]
fn rates_of_bind_are_those_of_the_kinds_of_replies() {
    let found = bind(
        "acl own { 192.0.2.0/24; };\noptions { recursion no; rate-limit { responses-per-second 20; nodata-per-second 15;\n\
         referrals-per-second 0; nxdomains-per-second 5; all-per-second 12; slip 3; log-only yes; window 5;\n\
         exempt-clients { own; key k; }; ipv6-prefix-length 64; max-table-size 1000; qps-scale 250; frob 1; }; };",
    );
    let expected = "[rate-limits]\ndry-run = true\nanswers-per-second = 12\nreferrals-per-second = 12\n\
                    nxdomains-per-second = 5\nerrors-per-second = 12\nburst = \"1s\"\nslip = 3\n\
                    ipv4-factors = [1, 8, 24]\nipv6-factors = [1, 2, 2]\nexempt = [\"192.0.2.0/24\"]\n\
                    limit-recursion = true\n";
    has(&found, &[expected]);
    assert_eq!(outcomes(&found, "qps-scale"), [Coverage::Missing]);
    assert_eq!(outcomes(&found, "frob"), [Coverage::Missing]);
    assert_eq!(outcomes(&found, "rate-limit"), [Coverage::Differs], "{:#?}", reported(&found));
}

#[test]
fn of_two_rates_of_bind_the_stricter_one_counts() {
    let found = bind(
        "options { recursion no; rate-limit { responses-per-second 20; exempt-clients { 192.0.2.1; 192.0.2.2; }; }; };\n\
         view a { match-clients { 10/8; }; rate-limit { responses-per-second 30; errors-per-second 4;\n\
         ipv4-prefix-length 18; exempt-clients { 192.0.2.2; }; }; };\nview b { match-clients { any; }; };",
    );
    has(
        &found,
        &[
            "answers-per-second = 20\n",
            "errors-per-second = 4\n",
            "ipv4-factors = [1, 1, 1]",
            "exempt = [\"192.0.2.2\"]",
        ],
    );
    // A statement without limits turns nothing on.
    has(&bind("options { recursion no; rate-limit { slip 1; }; };"), &["[rate-limits]\nenable = false\n"]);
    // Without a statement, nomen has its own defaults.
    assert!(!bind("options { recursion no; };").toml.contains("[rate-limits]"));
}

#[test]
fn rates_of_nsd_are_on_unless_they_are_turned_off() {
    let nsd = |text: &str| {
        let zone = "zone:\n  name: a.example\n  zonefile: a\n  rrl-whitelist: nxdomain\n";
        of(
            PeerProgram::Nsd,
            &[("/etc/nsd/nsd.conf", &format!("server:\n  ip-address: 192.0.2.1\n{text}{zone}"))],
        )
    };
    let found = nsd("  rrl-ratelimit: 50\n  rrl-slip: 0\n  rrl-ipv4-prefix-length: 16\n");
    has(
        &found,
        &[
            "answers-per-second = 50\nreferrals-per-second = 50\nnxdomains-per-second = 50\nerrors-per-second = 50\n",
            "slip = 0\nshort-replies-per-second = 0\nipv4-factors = [1, 1, 1]\nipv6-factors = [1, 2, 2]\nexempt = []\n",
        ],
    );
    let wider = "the largest networks that nomen counts";
    assert!(found.accounts.iter().any(|account| account.words.starts_with(wider)), "{:#?}", reported(&found));
    assert_eq!(outcomes(&found, "rrl-whitelist"), [Coverage::Missing]);
    has(&nsd(""), &["answers-per-second = 200\n"]);
    has(&nsd("  rrl-ratelimit: 0\n"), &["[rate-limits]\nenable = false\n"]);
}

#[test]
fn modules_of_knot_count_if_a_zone_has_them() {
    let knot = |rrl: &str, of: &str| {
        let text = format!(
            "mod-rrl:\n  - id: x\n{rrl}mod-cookies:\n  - id: c\n    secret: 0x{SECRET}\n\
             template:\n  - id: default\n    global-module: [mod-cookies/c, {of}]\nzone:\n  - domain: a.example\n"
        );
        super::of(PeerProgram::Knot, &[("/etc/knot/knot.conf", &text)])
    };
    let old = knot("    rate-limit: 20\n    whitelist: [192.0.2.1, 10.0.0.0-10.0.0.3]\n", "mod-rrl/x");
    has(
        &old,
        &[
            "answers-per-second = 20\n",
            "slip = 1\nipv4-factors = [1, 8, 24]\nipv6-factors = [1, 1, 2]\nexempt = [\"192.0.2.1\", \"10.0.0.0/30\"]\n",
        ],
    );
    assert_eq!(secrets(&old), Some(&*format!("cookie-secrets = [\"{SECRET}\"]")));
    assert_eq!(outcomes(&old, "global-module"), [Coverage::Translated]);
    let new = knot("    rate-limit: 20\n    instant-limit: 60\n    time-rate-limit: 10\n", "mod-rrl/x");
    has(&new, &["burst = \"3s\"\n", "ipv4-factors = [32, 256, 768]\nipv6-factors = [2, 3, 4]\n"]);
    assert_eq!(outcomes(&new, "time-rate-limit"), [Coverage::Missing]);
    assert!(!knot("    rate-limit: 20\n", "mod-stats").toml.contains("[rate-limits]"));
}

#[test]
fn rates_of_unbound_are_those_of_addresses() {
    let unbound = |text: &str| {
        let text = format!("server:\n  interface: 127.0.0.1\n{text}");
        of(
            PeerProgram::Unbound,
            &[("/u", &text), ("/secrets", &format!("{SECRET}\n{OTHER} # the next one\n"))],
        )
    };
    let found = unbound(
        "  ip-ratelimit: 300\n  ip-ratelimit-factor: 0\n  ip-ratelimit-cookie: 9\n  ratelimit: 100\n",
    );
    has(
        &found,
        &[
            "answers-per-second = 300\n",
            "slip = 0\nshort-replies-per-second = 0\nipv4-factors = [2, 16, 48]\n",
        ],
    );
    assert_eq!(outcomes(&found, "ratelimit 100"), [Coverage::Missing]);
    assert_eq!(outcomes(&found, "ip-ratelimit-cookie"), [Coverage::Missing]);
    assert!(!unbound("  ip-ratelimit: 0\n").toml.contains("[rate-limits]"));
    let both = Some(format!("cookie-secrets = [\"{SECRET}\", \"{OTHER}\"]"));
    let found =
        unbound(&format!("  answer-cookie: yes\n  cookie-secret: {OTHER}\n  cookie-secret-file: /secrets\n"));
    assert_eq!(secrets(&found).map(str::to_owned), both);
    let found = unbound(&format!("  cookie-secret: {SECRET}\n  cookie-secret-file: /gone\n"));
    assert_eq!(secrets(&found), Some(&*format!("cookie-secrets = [\"{SECRET}\"]")));
    assert_eq!(outcomes(&found, "cookie-secret-file"), [Coverage::Missing]);
    let nsd =
        of(PeerProgram::Nsd, &[("/n", "server:\n  cookie-secret-file: /secrets\n"), ("/secrets", SECRET)]);
    assert_eq!(secrets(&nsd), Some(&*format!("cookie-secrets = [\"{SECRET}\"]")));
    assert_eq!(outcomes(&nsd, "cookie-secret-file"), [Coverage::Translated]);
}

#[test]
fn secrets_of_cookies_are_kept_in_their_order() {
    let named =
        |more: &str| bind(&format!("options {{ recursion no; cookie-secret \"{SECRET}\"; {more} }};"));
    let both = Some(format!("cookie-secrets = [\"{SECRET}\", \"{OTHER}\"]"));
    assert_eq!(secrets(&named(&format!("cookie-secret \"{OTHER}\";"))).map(str::to_owned), both);
    // Cookies of AES have another form.
    let other = named("cookie-algorithm aes;");
    assert_eq!((secrets(&other), outcomes(&other, "cookie-secret")), (None, vec![Coverage::Missing]));
    assert_eq!(outcomes(&named("cookie-secret \"12\";"), "cookie-secret 12"), [Coverage::Missing]);
    let nsd = format!("server:\n  cookie-secret: {SECRET}\n  cookie-staging-secret: {OTHER}\n");
    assert_eq!(secrets(&of(PeerProgram::Nsd, &[("/n", &nsd)])).map(str::to_owned), both);
    let pdns = format!("edns-cookie-secret={SECRET}\n");
    has(
        &of(PeerProgram::PowerDns, &[("/etc/pdns.conf", &pdns)]),
        &[&format!("cookie-secrets = [\"{SECRET}\"]")],
    );
}

#[test]
fn rates_of_adguard_home_are_those_of_networks() {
    let home = |rate: u32| {
        let text = format!(
            "dns:\n  bind_hosts: [127.0.0.1]\n  upstream_dns: [192.0.2.53]\n  ratelimit: {rate}\n  \
             ratelimit_subnet_len_ipv4: 32\n  ratelimit_whitelist: [10.0.0.1]\nschema_version: 29\n"
        );
        of(PeerProgram::AdGuard, &[("/a", &text)])
    };
    has(
        &home(20),
        &["errors-per-second = 20\n", "ipv4-factors = [2, 16, 48]\n", "exempt = [\"10.0.0.1\"]\n"],
    );
    assert!(!home(0).toml.contains("[rate-limits]"));
}
