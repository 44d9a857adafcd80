//! What AdGuard documents about each part of the syntax, by its examples:
//! <https://adguard-dns.io/kb/general/dns-filtering-syntax/>.

use std::net::IpAddr;

use policy::{GroupFacts, ListFormat, NameKeys, PolicyQuery, RuleBuilder, Rules, SourceId, SourceMask};
use wire::hash::HashedName;
use wire::{NameBuf, Type};

use super::{blocks, decide, key, rules};

fn client(text: &str) -> Option<IpAddr> {
    Some(text.parse().expect("an address"))
}

#[test]
fn patterns_cover_the_documented_names() {
    let table: &[(&str, &[&str], &[&str])] = &[
        ("||example.org^", &["example.org", "www.example.org"], &["testexample.org", "example.org.com"]),
        ("example.org", &["example.org"], &["www.example.org"]),
        ("||example.org", &["example.org", "test.example.org", "example.org.com"], &["testexample.org"]),
        ("ample.org|", &["example.org", "ample.org"], &["example.org.com"]),
        ("|example", &["example.org", "example"], &["test.example"]),
        ("|example.org^", &["example.org"], &["www.example.org", "example.org.com"]),
        ("/example.*/", &["example.org", "www.example.org", "anexamples"], &["exampl.org"]),
        ("/.*/", &["example.org", "."], &[]),
        ("*$denyallow=com|net", &["example.org", "com.org"], &["example.com", "com", "a.b.net"]),
        (
            "||example.org^$denyallow=sub.example.org",
            &["example.org", "a.example.org"],
            &["sub.example.org", "a.sub.example.org", "example.com"],
        ),
        // Wildcards in every position.
        (
            "||ads*.example.com^",
            &["ads1.example.com", "ads.example.com", "x.ads-2.a.example.com"],
            &["xads.example.com", "ads.example.com.au", "example.com"],
        ),
        ("||example.*^", &["example.org", "www.example.co.uk"], &["example", "myexample.org"]),
        ("*ads*", &["myads.example", "ads", "x.y.roads"], &["example.org"]),
        ("ads.*.com^", &["ads.x.com", "myads.x.y.com"], &["ads.com", "ads.x.com.au"]),
        ("|ads.", &["ads.example", "ads.x.example"], &["x.ads.example", "ads"]),
        ("-ads-", &["my-ads-server.example"], &["ads.example", "my-ads.example"]),
        ("example.org^|", &["example.org", "myexample.org", "www.example.org"], &["example.org.uk"]),
        ("||*.example.org^", &["www.example.org"], &["example.org"]),
        // A regular expression is a search, in any letter case; a dot within a label is no dot.
        ("/^ad[0-9]+\\./", &["AD12.example", "ad1.x"], &["ad.example", "xad1.example"]),
        ("/(^|\\.)ads?\\.(com|net)$/", &["ad.com", "x.ads.NET"], &["ads.org", "ads.com.au", "x\\.ads.net"]),
        ("||*^", &["example.org", "."], &[]),
    ];
    for (rule, covered, others) in table {
        let rules = rules(&[rule]);
        for (names, wanted) in [(covered, true), (others, false)] {
            for name in *names {
                let name = format!("{}.", name.trim_end_matches('.'));
                assert_eq!(blocks(&rules, &name, Type::A, None), wanted, "{rule} {name}");
            }
        }
    }
}

#[test]
fn modifiers_limit_a_rule_to_types_and_clients() {
    let [local, frank] = ["127.0.0.1", "192.168.0.7"].map(client);
    for (rule, name, qtype, client, wanted) in [
        ("||example.org^$dnstype=AAAA", "example.org.", Type::AAAA, None, true),
        ("||example.org^$dnstype=aaaa", "example.org.", Type::A, None, false),
        ("||example.org^$dnstype=~A|~CNAME", "www.example.org.", Type::MX, None, true),
        ("||example.org^$dnstype=~A|~CNAME", "www.example.org.", Type::A, None, false),
        ("||example.org^$dnstype=~MX|A", "example.org.", Type::A, None, true),
        ("||example.org^$dnstype=~MX|A", "example.org.", Type::TXT, None, false),
        ("||example.org^$dnstype=~A|A", "example.org.", Type::A, None, true),
        ("||*^$dnstype=HTTPS", "example.org.", Type::HTTPS, None, true),
        ("*$dnstype=HTTPS", "example.org.", Type::A, None, false),
        ("||example.org^$client=127.0.0.1,dnstype=A", "example.org.", Type::A, local, true),
        ("||example.org^$client=127.0.0.1,dnstype=A", "example.org.", Type::A, frank, false),
        ("||example.org^$client=127.0.0.1,dnstype=A", "example.org.", Type::MX, local, false),
        ("||example.org^$client=127.0.0.1", "example.org.", Type::A, client("::ffff:127.0.0.1"), true),
        ("||example.org^$client=192.168.0.0/24", "example.org.", Type::A, frank, true),
        ("||example.org^$client='192.168.0.0/24'", "example.org.", Type::A, None, false),
        ("||example.org^$client=~\"192.168.0.7\"", "example.org.", Type::A, frank, false),
        ("||example.org^$client=~192.168.0.7", "example.org.", Type::A, local, true),
        ("||example.org^$client=192.168.0.0/24|~192.168.0.7", "example.org.", Type::A, frank, false),
        ("||example.org^$client=192.168.0.0/24|~192.168.0.7", "example.org.", Type::A, local, false),
        ("/^ex/$client=2001:db8::/32", "example.org.", Type::A, client("2001:db8::1"), true),
        ("||ex*.org^$dnstype=A", "example.org.", Type::AAAA, None, false),
    ] {
        let rules = rules(&[rule]);
        assert_eq!(blocks(&rules, name, qtype, client), wanted, "{rule} {name} {qtype} {client:?}");
        assert_eq!(rules.depends_on_client(), rule.contains("client"), "{rule}");
    }
}

#[test]
fn the_order_of_rules_is_the_documented_one() {
    let local = client("127.0.0.1");
    for (texts, name, wanted) in [
        (&["||example.org^", "@@||example.org^"][..], "a.example.org.", false),
        (&["||example.org^$important", "@@||example.org^"], "a.example.org.", true),
        (&["||example.org^$important", "@@||example.org^$important"], "a.example.org.", false),
        (&["||example.org^$important", "@@/example.*/$important"], "example.org.", false),
        (&["||example.org^", "@@/example.*/"], "example.org.", false),
        (&["/example/$important", "@@||example.org^"], "example.org.", true),
        (&["||ex*.org^", "@@exam"], "www.example.org.", false),
        (&["/.*/", "@@||com^", "@@||net^"], "example.com.", false),
        (&["/.*/", "@@||com^", "@@||net^"], "example.org.", true),
        (&["/.*/", "@@*$denyallow=com|net"], "example.org.", false),
        (&["/.*/", "@@*$denyallow=com|net"], "example.com.", true),
        (&["||example.org^", "@@||*^$client=127.0.0.1"], "example.org.", false),
        (&["||example.org^", "@@||*^$client=127.0.0.2"], "example.org.", true),
    ] {
        assert_eq!(blocks(&rules(texts), name, Type::A, local), wanted, "{texts:?} {name}");
    }
}

#[test]
fn badfilter_disables_the_same_rule_in_any_list() {
    for (rule, disabling, wanted) in [
        ("||example.com", "||example.com$badfilter", false),
        ("||example.com^", "||example.com^$badfilter", false),
        ("example.com", "example.com$badfilter", false),
        ("*.com", "*.com$badfilter", false),
        ("/^ex/", "/^ex/$badfilter", false),
        ("||ex*.com^$dnstype=A|MX,important", "||ex*.com^$important,badfilter,dnstype=MX|A", false),
        ("||example.com^$important", "||example.com^$badfilter", true),
        ("||example.com^", "||example.com^$badfilter,important", true),
        ("||example.com^", "||example.com^$badfilter,dnstype=A", true),
        ("||example.com^", "example.com$badfilter", true),
        ("||example.com^", "||com^$badfilter", true),
        ("||example.com^", "@@||example.com^$badfilter", true),
    ] {
        for texts in [&[rule, disabling][..], &[disabling, rule], &[&format!("{rule}\n{disabling}")]] {
            assert_eq!(blocks(&rules(texts), "example.com.", Type::A, None), wanted, "{texts:?}");
        }
    }
    let exception = ["||example.org^", "@@||example.org^", "@@||example.org^$badfilter"];
    assert!(blocks(&rules(&exception), "example.org.", Type::A, None));
}

/// A list stays in force from an earlier snapshot, where another list had disabled its rule.
#[test]
fn a_rule_that_is_no_longer_disabled_is_in_force_again() {
    let keys = NameKeys::new(key());
    let lists =
        ["||one.example^\n/^two/\n||th*ee^$dnstype=A\n", "||one.example^$badfilter\n/^two/$badfilter\n"];
    let build = |kept: &[(u8, &Rules)], texts: &[(u8, &str)]| {
        let mut builder = RuleBuilder::new(keys);
        for (source, of) in kept {
            builder.keep(SourceId(*source), of, SourceId(*source));
        }
        for (source, text) in texts {
            builder.list(SourceId(*source), ListFormat::Auto, text.as_bytes(), false).expect("a list");
        }
        builder.build()
    };
    let both = build(&[], &[(0, lists[0]), (1, lists[1])]);
    let kept = build(&[(0, &both), (1, &both)], &[]);
    let alone = build(&[(0, &kept)], &[(1, "# nothing\n")]);
    let of = |rules: &Rules| {
        ["one.example.", "two.example.", "three."].map(|name| blocks(rules, name, Type::A, None))
    };
    assert_eq!([of(&both), of(&kept), of(&alone)], [[false, false, true], [false, false, true], [true; 3]]);
    assert!(!blocks(&alone, "three.", Type::MX, None), "the condition stays");
    assert_eq!(decide(&alone, "four.", Type::A, None).list, None);
}

/// Regular expressions of public lists: each searches on its own, also where one automaton has all.
#[test]
fn many_regular_expressions_match_as_each_alone() {
    let lines: Vec<String> = (0..60)
        .map(|n| match n % 4 {
            0 => format!(
                "/^ad([sxv]?[0-9]*|system){n}[_.-]([^.[:space:]]+\\.){{1,}}|[_.-]ad{n}([sxv]?[0-9]*)[_.-]/"
            ),
            1 => format!("/^(.+[_.-])?adse?rv(er?|ice)?s?{n}[_.-]/"),
            2 => format!("/x.*y.*z{n}/"),
            _ => format!("/^track{n}(ing|ers?)?[0-9]*[_.-]/"),
        })
        .collect();
    let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
    let together = rules(&[&lines.join("\n")]);
    let alone: Vec<_> = texts.iter().map(|text| rules(&[text])).collect();
    for name in [
        "ads0.example.",
        "my.ad4.example.",
        "adserver1.example.",
        "x.adsrv5.example.",
        "xyz2.",
        "x.y.z58.",
        "tracker3.",
        "tracking7-1.example.",
        "example.org.",
        "tracker.example.",
        "yxz2.",
    ] {
        let wanted = alone.iter().any(|rules| blocks(rules, name, Type::A, None));
        assert_eq!(blocks(&together, name, Type::A, None), wanted, "{name}");
    }
    assert!(together.bytes() < 32 << 20, "{}", together.bytes());
}

/// What lists answer to a query: a response code, or records as text.
fn answer(rules: &Rules, name: &str, qtype: Type, group: Option<&GroupFacts>) -> Option<String> {
    let mut hashed = HashedName::new();
    hashed.set(&key(), name.parse::<NameBuf>().expect("a name").as_name());
    let client = group.map(|_| IpAddr::from([192, 0, 2, 1]));
    let query = PolicyQuery { name: &hashed, qtype, client, group };
    let rewrites = rules.rewrites_of(&query, &SourceMask::ALL)?;
    if let Some(code) = rewrites.code {
        return Some(code.to_string());
    }
    let records = rewrites.records().flat_map(|data| rules.local_data(data).collect::<Vec<_>>());
    let text = |record: policy::PolicyRecord<'_>| {
        let mut text = format!("{} ", record.rtype);
        wire::rdata::write_text(record.rtype, record.rdata, &mut text).expect("written");
        text
    };
    let mut all: Vec<String> = records.map(text).collect();
    all.sort();
    Some(all.join(", "))
}

#[test]
fn answers_of_their_own_are_one_answer() {
    let of = |text: &str, name: &str| answer(&rules(&[text]), name, Type::A, None);
    let said = |text: &str| Some(text.to_owned());
    let two = "||example.com^$dnsrewrite=NOERROR;A;1.2.3.4\n||example.com^$dnsrewrite=NOERROR;A;1.2.3.5\n";
    assert_eq!(of(two, "www.example.com."), said("A 1.2.3.4, A 1.2.3.5"));
    assert_eq!(of(two, "example.org."), None);
    let alias = format!("{two}||example.com^$dnsrewrite=example.net\n");
    assert_eq!(of(&alias, "example.com."), said("CNAME example.net."));
    assert_eq!(of(&format!("{alias}||example.com^$dnsrewrite=REFUSED\n"), "example.com."), said("REFUSED"));
    let reverse = "||4.3.2.1.in-addr.arpa^$dnsrewrite=NOERROR;PTR;example.net.\n";
    assert_eq!(of(reverse, "4.3.2.1.in-addr.arpa."), said("PTR example.net."));
    let empty = "$dnstype=AAAA,denyallow=example.org,dnsrewrite=NOERROR;;\n";
    assert_eq!(answer(&rules(&[empty]), "x.example.", Type::AAAA, None), said("NOERROR"));
    assert_eq!(answer(&rules(&[empty]), "x.example.org.", Type::AAAA, None), None);
    assert_eq!(of(empty, "x.example."), None);
    let regex = "/^ads[0-9]/$dnsrewrite=192.0.2.1\n";
    assert_eq!(of(regex, "ads1.example."), said("A 192.0.2.1"));
}

#[test]
fn exceptions_exempt_from_one_answer_or_from_all() {
    let two = "||example.com^$dnsrewrite=1.2.3.4\n||example.com^$dnsrewrite=1.2.3.5\n";
    let of = |more: &str, name: &str| answer(&rules(&[two, more]), name, Type::A, None);
    let one = "@@||www.example.com^$dnsrewrite=1.2.3.4\n";
    assert_eq!(of(one, "www.example.com."), Some("A 1.2.3.5".into()));
    assert_eq!(of(one, "example.com."), Some("A 1.2.3.4, A 1.2.3.5".into()));
    assert_eq!(of("@@||www.example.com^$dnsrewrite\n", "www.example.com."), None);
    assert_eq!(of("@@||www.example.com^\n", "www.example.com."), Some("A 1.2.3.4, A 1.2.3.5".into()));
}

#[test]
fn rules_for_names_and_tags_of_clients_apply_to_these() {
    let group = |name: &str, tags: &[&str]| GroupFacts {
        name: name.into(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    };
    let (frank, tv) = (group("Frank's laptop", &["os_linux"]), group("tv", &["device_tv", "os_other"]));
    let of = |text: &str, group: Option<&GroupFacts>| {
        let text = text.replace("$", "$dnsrewrite=NXDOMAIN,");
        answer(&rules(&[&text]), "ads.example.", Type::A, group).is_some()
    };
    for (rule, is_franks, is_tvs, others) in [
        ("||ads.example^$client='Frank\\'s laptop'\n", true, false, false),
        ("||ads.example^$client=~'Frank\\'s laptop'\n", false, true, true),
        ("||ads.example^$client=tv|198.51.100.0/24\n", false, true, false),
        ("||ads.example^$client=192.0.2.1|tv\n", true, true, false),
        ("||ads.example^$ctag=device_tv|device_phone\n", false, true, false),
        ("||ads.example^$ctag=~device_tv\n", true, false, true),
        ("||ads.example^$ctag=os_linux,client=tv\n", false, false, false),
        ("||ads.example^$ctag=nosuch\n", false, false, false),
    ] {
        let found = [of(rule, Some(&frank)), of(rule, Some(&tv)), of(rule, None)];
        assert_eq!(found, [is_franks, is_tvs, others], "{rule}");
        assert!(rules(&[rule]).depends_on_client(), "{rule}");
    }
}

#[test]
fn answers_are_kept_with_the_rules_of_another_version() {
    let keys = NameKeys::new(key());
    let mut builder = RuleBuilder::new(keys);
    for (source, text) in
        [(0, "||a.example^$dnsrewrite=192.0.2.1\n"), (1, "||b.example^$dnsrewrite=192.0.2.2\n")]
    {
        builder.list(SourceId(source), ListFormat::Auto, text.as_bytes(), false).expect("a list");
    }
    let before = builder.build();
    let mut builder = RuleBuilder::new(keys);
    builder.keep(SourceId(0), &before, SourceId(1));
    let after = builder.build();
    assert_eq!(answer(&after, "b.example.", Type::A, None), Some("A 192.0.2.2".into()));
    assert_eq!(answer(&after, "a.example.", Type::A, None), None);
    assert!(after.have_rewrites() && !rules(&["||a.example^\n"]).have_rewrites());
}
