//! Policies of signing, and the zones that have them.

use super::*;

fn knot(text: &str) -> Converted {
    of(PeerProgram::Knot, &[("/etc/knot/knot.conf", text)])
}

const CLAUSE: &str = "dnssec-policy slow { keys { ksk lifetime P1Y algorithm rsasha256 3072; zsk key-directory \
    lifetime 60d algorithm 8; }; nsec3param iterations 0 optout yes salt-length 8; signatures-validity 21d; \
    signatures-refresh P7D; signatures-jitter 1d; dnskey-ttl 600; purge-keys 0; cdnskey yes; \
    max-zone-ttl 86400; parent-ds-ttl 2h; };\n";

#[test]
fn zones_of_bind_keep_their_policy() {
    let found = bind(&format!(
        "options {{ directory \"/srv\"; recursion no; dnssec-policy slow; }};\n{CLAUSE}\
         zone a.example {{ type primary; file \"a\"; key-directory \"keys\"; inline-signing yes; }};\n\
         zone b.example {{ type primary; file \"b\"; dnssec-policy none; }};\n\
         zone c.example {{ type secondary; primaries {{ 192.0.2.9; }}; }};\n\
         zone d.example {{ type secondary; primaries {{ 192.0.2.9; }}; dnssec-policy insecure; }};"
    ));
    has(
        &found,
        &[
            "[dnssec-policy.slow]\nalgorithm = \"rsasha256\"\nsingle-key = false\nksk-size = 3072\n",
            "nsec3 = true\nnsec3-opt-out = true\nksk-lifetime = \"365d\"\nzsk-lifetime = \"60d\"\n",
            "signature-validity = \"21d\"\nsignature-refresh = \"7d\"\nsignature-jitter = \"1d\"\n",
            "dnskey-ttl = \"10m\"\npurge-keys = \"0s\"\nparent-ds-ttl = \"2h\"\n",
            "name = \"a.example\"\nfile = \"/srv/a\"\ndnssec-policy = \"slow\"\n",
            "name = \"b.example\"\nfile = \"/srv/b\"\n\n",
            "name = \"c.example\"\nprimaries = [\"192.0.2.9\"]\n\n",
            "name = \"d.example\"\nprimaries = [\"192.0.2.9\"]\ndnssec-policy = \"insecure\"\n",
            "state-dir = \"/var/lib/nomen\"",
        ],
    );
    assert_eq!(found.toml.matches("[dnssec-policy.").count(), 1, "{}", found.toml);
    for (statement, outcome) in [
        ("ksk lifetime", Coverage::Translated),
        ("signatures-refresh", Coverage::Translated),
        ("max-zone-ttl", Coverage::Unneeded),
        ("cdnskey", Coverage::Unneeded),
        ("inline-signing", Coverage::Unneeded),
        ("key-directory", Coverage::Differs),
        ("dnssec-policy none", Coverage::Unneeded),
        ("zone c.example", Coverage::Differs),
    ] {
        assert_eq!(outcomes(&found, statement), [outcome], "{statement}");
    }
    // The keys do not come by themselves.
    let words: Vec<&str> = found.accounts.iter().map(|account| &*account.words).collect();
    assert!(
        words.iter().any(|words| words.contains("copy the K* files of its keys from /srv/keys")),
        "{words:?}"
    );
}

const OFFLINE: &str = "dnssec-policy off { signatures-validity-dnskey 30d; cds-digest-types { sha-384; };\n\
    keys { ksk lifetime P1Y algorithm rsasha256 3072; zsk lifetime 60d algorithm 8 3072; };\n\
    offline-ksk yes; signatures-validity 21d; };\n";

#[test]
fn a_ksk_of_bind_may_be_offline() {
    let found = bind(&format!(
        "options {{ directory \"/srv\"; recursion no; }};\n{OFFLINE}\
         dnssec-policy size {{ offline-ksk true; keys {{ ksk lifetime unlimited algorithm 8 4096; \
         zsk lifetime unlimited algorithm 8; }}; }};\n\
         dnssec-policy online {{ offline-ksk no; }};\n\
         zone a.example {{ type primary; file \"a\"; dnssec-policy off; key-directory \"keys\"; }};\n\
         zone b.example {{ type primary; file \"b\"; dnssec-policy size; }};\n\
         zone c.example {{ type primary; file \"c\"; dnssec-policy online; }};"
    ));
    has(
        &found,
        &[
            "[dnssec-policy.off]\nalgorithm = \"rsasha256\"\nsingle-key = false\nzsk-size = 3072\n\
             offline-ksk = true\nzsk-lifetime = \"60d\"\nsignature-validity = \"21d\"\n\n",
            "[dnssec-policy.size]\nalgorithm = \"rsasha256\"\nsingle-key = false\noffline-ksk = true\n\n",
            "[dnssec-policy.online]\n\n",
            "name = \"a.example\"\nfile = \"/srv/a\"\ndnssec-policy = \"off\"\n",
        ],
    );
    // Neither would be accepted beside `offline-ksk`.
    assert!(!found.toml.contains("ksk-lifetime") && !found.toml.contains("ksk-size"), "{}", found.toml);
    for (statement, outcome) in [
        ("offline-ksk yes", Coverage::Translated),
        ("offline-ksk no", Coverage::Unneeded),
        ("ksk lifetime P1Y", Coverage::Differs),
        ("ksk lifetime unlimited algorithm 8 4096", Coverage::Unneeded),
        ("zsk lifetime 60d", Coverage::Translated),
        ("signatures-validity-dnskey", Coverage::Differs),
        ("cds-digest-types", Coverage::Differs),
    ] {
        assert!(outcomes(&found, statement).contains(&outcome), "{statement}: {:?}", found.accounts);
    }
    let words = |part: &str| found.accounts.iter().filter(|account| account.words.contains(part)).count();
    assert_eq!(
        words("its ZSKs from /srv/keys to the folder `keys` of `state-dir`"),
        1,
        "{:?}",
        found.accounts
    );
    assert_eq!(words("import its present signed key response"), 2);
    assert_eq!(words("the server cannot replace the KSK"), 1);
}

#[test]
fn a_single_key_of_bind_is_not_offline() {
    for keys in ["", "keys { csk lifetime unlimited algorithm 13; };"] {
        let found = bind(&format!(
            "options {{ recursion no; }}; dnssec-policy odd {{ offline-ksk yes; {keys} }};\n\
             zone a.example {{ type primary; file \"a\"; dnssec-policy odd; }};"
        ));
        assert_eq!(outcomes(&found, "offline-ksk"), [Coverage::Missing], "{keys}");
        assert!(!found.toml.contains("offline-ksk"), "{keys}: {}", found.toml);
    }
    let found = bind(
        "options { recursion no; }; dnssec-policy odd { offline-ksk maybe; };\n\
         zone a.example { type primary; file \"a\"; dnssec-policy odd; };",
    );
    assert_eq!(outcomes(&found, "offline-ksk"), [Coverage::Missing]);
}

#[test]
fn servers_of_the_parent_are_those_of_bind() {
    let found = bind(
        "options { recursion no; }; key k { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\n\
         parental-agents up port 5353 { 192.0.2.1; 2001:db8::1 key k; };\n\
         zone a.example { type primary; file \"a\"; dnssec-policy default; parental-agents { up; }; checkds explicit; };\n\
         zone b.example { type primary; file \"b\"; parental-agents { up; }; };",
    );
    has(
        &found,
        &["dnssec-policy = \"default\"\nparental-servers = [\"192.0.2.1@5353\", \"[2001:db8::1]@5353\"]\n"],
    );
    assert_eq!(found.toml.matches("parental-servers").count(), 1, "{}", found.toml);
    let of_zones: Vec<Coverage> = outcomes(&found, "parental-agents");
    // A key signs no question to them; the zone b.example is not signed.
    assert_eq!(of_zones, [Coverage::Translated, Coverage::Differs, Coverage::Unneeded]);
    assert_eq!(outcomes(&found, "checkds"), [Coverage::Unneeded]);
}

#[test]
fn policies_that_nomen_cannot_have_are_missing() {
    for keys in [
        "keys { csk lifetime unlimited algorithm ed448; };",
        "keys { csk lifetime unlimited algorithm 13; csk lifetime unlimited algorithm 8; };",
        "keys { zsk lifetime unlimited algorithm 13; };",
    ] {
        let found = bind(&format!(
            "options {{ recursion no; }}; dnssec-policy odd {{ {keys} }};\n\
             zone a.example {{ type primary; file \"a\"; dnssec-policy odd; }};\n\
             zone b.example {{ type primary; file \"b\"; dnssec-policy odd; }};"
        ));
        assert!(!found.toml.contains("dnssec-policy"), "{keys}: {}", found.toml);
        assert!(outcomes(&found, "dnssec-policy odd").contains(&Coverage::Missing), "{keys}");
        assert_eq!(found.accounts.iter().filter(|a| a.words.contains("cannot have this policy")).count(), 2);
    }
    let found = bind(
        "options { recursion no; }; zone a.example { type primary; file \"a\"; inline-signing yes; \
         dnssec-policy absent; };",
    );
    assert_eq!(outcomes(&found, "dnssec-policy"), [Coverage::Missing]);
}

#[test]
fn times_that_contradict_each_other_are_mended() {
    let found = bind(
        "options { recursion no; }; dnssec-policy short { keys { csk lifetime 5d algorithm 13; }; \
         signatures-validity 4d; dnskey-ttl 30d; };\n\
         zone a.example { type primary; file \"a\"; dnssec-policy short; };",
    );
    has(&found, &["signature-validity = \"4d\"\n", "signature-refresh = \"2d\"\n", "dnskey-ttl = \"7d\"\n"]);
    assert!(!found.toml.contains("ksk-lifetime"), "a rollover takes longer: {}", found.toml);
    for statement in ["csk lifetime", "dnskey-ttl"] {
        assert!(outcomes(&found, statement).contains(&Coverage::Differs), "{statement}");
    }
}

#[test]
fn policy_zones_of_a_signing_bind_are_not_signed() {
    let found = bind(
        "options { recursion yes; dnssec-policy default; response-policy { zone rpz.example; }; };\n\
         zone rpz.example { type primary; file \"rpz\"; };\n\
         zone a.example { type primary; file \"a\"; };",
    );
    assert_eq!(found.toml.matches("dnssec-policy = \"default\"").count(), 1, "{}", found.toml);
}

const KNOT: &str = "remote:
  - id: parent
    address: [192.0.2.1, 2001:db8::1@5353]
submission:
  - id: up
    parent: parent
    parent-delay: 2h
    check-interval: 1h
policy:
  - id: own
    algorithm: ED25519
    ksk-lifetime: 365d
    nsec3: on
    nsec3-iterations: 3
    nsec3-salt-length: 8
    rrsig-lifetime: 10d
    ksk-submission: up
    cds-cdnskey-publish: rollover
acl:
  - id: upd
    address: 192.0.2.7
    action: update
zone:
  - domain: a.example
    dnssec-signing: on
    dnssec-policy: own
    zonemd-generate: zonemd-sha512
    zonefile-sync: 1h
    serial-policy: unixtime
    acl: upd
";

#[test]
fn servers_that_knot_pushes_ds_records_to_are_kept_with_their_keys() {
    let text = KNOT.replace("    cds-cdnskey-publish: rollover\n", "    ds-push: [up1, parent]\n").replace(
        "remote:\n",
        "key:\n  - id: k\n    secret: c2VjcmV0\nremote:\n  - id: up1\n    address: 192.0.2.9\n    key: k\n",
    );
    let found = knot(&text);
    has(&found, &["ds-push = [\"192.0.2.9 key:k\"]\n"]);
    assert_eq!(outcomes(&found, "ds-push"), [Coverage::Differs], "one server has no key");
    let found = knot(&text.replace("ds-push: [up1, parent]", "ds-push: parent"));
    assert!(!found.toml.contains("ds-push"), "{}", found.toml);
    assert_eq!(outcomes(&found, "ds-push"), [Coverage::Missing]);
}

#[test]
fn zones_of_knot_keep_their_policy() {
    let found = knot(KNOT);
    has(
        &found,
        &[
            "[dnssec-policy.own]\nalgorithm = \"ed25519\"\nsingle-key = false\nnsec3 = true\n",
            "nsec3-iterations = 3\nzone-propagation-delay = \"1h\"\nzsk-lifetime = \"30d\"\n\
             signature-refresh = \"25h\"\nksk-lifetime = \"365d\"\nsignature-validity = \"10d\"\n\
             parent-propagation-delay = \"2h\"\nzonemd = [\"sha512\"]\n",
            "dnssec-policy = \"own\"\nparental-servers = [\"192.0.2.1\", \"[2001:db8::1]@5353\"]\n",
            "serial-policy = \"unixtime\"\n",
        ],
    );
    assert!(!found.toml.contains("write-file-every"), "{}", found.toml);
    for (statement, outcome) in [
        ("nsec3-salt-length", Coverage::Differs),
        ("nsec3-iterations", Coverage::Translated),
        ("cds-cdnskey-publish", Coverage::Differs),
        ("dnssec-policy", Coverage::Translated),
        ("dnssec-signing", Coverage::Differs),
        ("zonemd-generate", Coverage::Differs),
        ("zonefile-sync", Coverage::Differs),
        ("check-interval", Coverage::Unneeded),
        ("parent-delay", Coverage::Translated),
    ] {
        assert_eq!(outcomes(&found, statement), [outcome], "{statement}");
    }
    assert!(!found.is_less(), "{:?}", found.accounts);
}

#[test]
fn a_zone_of_knot_without_a_policy_has_that_of_knot() {
    let found = knot("zone:\n  - domain: a.example\n    dnssec-signing: on\n");
    has(
        &found,
        &[
            "[dnssec-policy.knot-default]\nsingle-key = false\nzone-propagation-delay = \"1h\"\n\
             zsk-lifetime = \"30d\"\n",
            "dnssec-policy = \"knot-default\"\n",
        ],
    );
    let found = knot("zone:\n  - domain: a.example\n    dnssec-signing: off\n    dnssec-policy: own\n");
    assert_eq!(outcomes(&found, "dnssec-policy"), [Coverage::Unneeded]);
    assert!(!found.toml.contains("dnssec-policy"), "{}", found.toml);
    let odd = "policy:\n  - id: odd\n    algorithm: ed448\nzone:\n  - domain: a.example\n    dnssec-signing: on\n    \
               dnssec-policy: odd\n";
    let found = knot(odd);
    assert!(!found.toml.contains("dnssec-policy"), "{}", found.toml);
    assert_eq!(outcomes(&found, "dnssec-signing"), [Coverage::Missing]);
    assert_eq!(outcomes(&found, "algorithm"), [Coverage::Missing]);
}
