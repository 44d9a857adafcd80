//! Views of BIND.

use super::policy::{part, reported};
use super::*;

fn zone(name: &str, file: &str) -> String {
    format!("zone \"{name}\" {{ type master; file \"/{file}\"; }};")
}

/// The common form: recursion for the clients inside, zones alone for the others.
#[test]
fn two_views_keep_their_clients_zones_and_recursion() {
    let found = bind(&format!(
        "{KEY} key out {{ algorithm hmac-sha256; secret \"c2VjcmV0\"; }};\n\
         acl nets {{ 10.0.0.0/8; 192.168.0.0/16; }};\n\
         options {{ allow-transfer {{ none; }}; }};\n\
         view \"Inside 1\" {{ match-clients {{ !key out; key xfer; nets; localhost; }}; recursion yes;\n\
         allow-recursion {{ any; }}; forwarders {{ 192.0.2.53; }}; max-cache-ttl 60;\n\
         allow-transfer {{ key xfer; }}; {} {} }};\n\
         view outside {{ match-clients {{ any; }}; recursion no; allow-recursion {{ none; }};\n\
         allow-query {{ !192.0.2.1; any; }}; {} zone \"in.example\" {{ in-view \"Inside 1\"; }};\n\
         zone f.example {{ type forward; forwarders {{ 192.0.2.9; }}; }}; }};",
        zone("a.example", "inside"),
        zone("in.example", "in"),
        zone("a.example", "outside"),
    ));
    let expected = r#"[[resolver.forward]]
domain = "."
servers = ["192.0.2.53"]
forward-first = true

[[resolver.access]]
action = "allow"
from = ["10.0.0.0/8", "127.0.0.1", "192.168.0.0/16", "::1"]

[[view]]
name = "inside-1"
from = ["10.0.0.0/8", "127.0.0.1", "192.168.0.0/16", "::1", "key:xfer"]

[[view]]
name = "outside"
from = ["any", "key:out"]
"#;
    assert_eq!(part(&found, "[[resolver.forward]]", "\n[template"), expected);
    has(
        &found,
        &[
            "[[zone]]\nname = \"a.example\"\nfile = \"/inside\"\ntemplate = \"primary\"\nview = \"inside-1\"\n",
            "[[zone]]\nname = \"a.example\"\nfile = \"/outside\"\nview = \"outside\"\n\
             allow-query = [\"!192.0.2.1\", \"any\"]\n",
            "[[zone]]\nname = \"in.example\"\nfile = \"/in\"\ntemplate = \"primary\"\nview = \"outside\"\n",
            "max-ttl = \"1m\"",
        ],
    );
    assert!(!found.toml.contains("f.example") && !found.is_less(), "{:#?}", reported(&found));
}

#[test]
fn clients_whose_view_cannot_be_expressed_get_no_answers() {
    let of = |first: &str| {
        bind(&format!(
            "{KEY} options {{ recursion no; }};\n view one {{ {first} {} }};\nview two {{ {} }};",
            zone("a.example", "one"),
            zone("a.example", "two")
        ))
    };
    let without = |found: &Converted, file: &str| {
        assert!(!found.toml.contains(&format!("file = \"/{file}\"")), "{}", found.toml);
        assert!(found.is_less());
    };
    // The conditions decide between two views: clients that may be in the first one are in neither.
    let found = of("match-clients { 10/8; }; match-destinations { 10.0.0.1; };");
    has(&found, &["name = \"one\"\nfrom = [\"10.0.0.0/8\"]", "file = \"/two\"\nview = \"two\""]);
    without(&found, "one");
    assert_eq!(outcomes(&found, "match-destinations"), [Coverage::Narrower]);
    let found = of("match-recursive-only yes;");
    without(&found, "one");
    without(&found, "two");
    let found = of("match-clients { !localnets; 10/8; };");
    has(&found, &["name = \"one\"\nfrom = [\"10.0.0.0/8\"]"]);
    without(&found, "one");
    let found = of("match-clients { geoip country DE; };");
    without(&found, "two");
    // A key from some addresses alone: its queries get no answers, the others do.
    let found = of("match-clients { !{ !10/8; any; }; key xfer; };");
    has(
        &found,
        &["[[view]]\nname = \"not-moved\"\nfrom = [\"key:xfer\"]", "file = \"/two\"\nview = \"two\""],
    );
    assert!(found.is_less() && outcomes(&found, "match-clients").contains(&Coverage::Narrower));
    // A view has all networks that the host is attached to.
    let found = of("match-clients { localnets; 192.0.2.0/24; };");
    has(&found, &["from = [\"192.0.2.0/24\", \"attached\"]", "from = [\"any\"]"]);
    assert!(!found.is_less(), "{:#?}", reported(&found));
}

#[test]
fn recursion_is_that_of_views_with_the_same_resolver() {
    let view = |name: &str, clients: &str, more: &str| {
        format!(
            "view {name} {{ match-clients {{ {clients} }}; {more} zone . {{ type hint; file \"/h\"; }}; }};\n"
        )
    };
    let of = |views: &str| bind(&format!("options {{ allow-recursion {{ any; }}; }};\n{views}"));
    let same = of(&(view("a", "10.1/16;", "max-cache-ttl 60;")
        + &view("b", "10.2/16;", "max-cache-ttl 60; allow-recursion { 10.2.1/24; };")
        + &view("c", "any;", "recursion no;")));
    has(&same, &["[[resolver.access]]\naction = \"allow\"\nfrom = [\"10.1.0.0/16\", \"10.2.1.0/24\"]\n"]);
    assert!(!same.toml.contains("refuse") && !same.is_less(), "{:#?}", reported(&same));
    let other =
        of(&(view("a", "10.1/16;", "max-cache-ttl 60;") + &view("b", "10.2/16;", "max-cache-ttl 61;")));
    has(&other, &["from = [\"10.1.0.0/16\"]\n\n[[view]]", "max-ttl = \"1m\""]);
    assert_eq!(outcomes(&other, "view b"), [Coverage::Translated, Coverage::Narrower]);
    // By default, clients of attached networks may recurse.
    let usual = bind("view a { match-clients { 128.0.0.0/1; ::/0; }; }; view b { recursion no; };");
    has(
        &usual,
        &[
            "action = \"refuse\"\nfrom = [\"0.0.0.0/1\"]\n\n[[resolver.access]]\naction = \"allow\"\nfrom = [\"::1\", \"attached\"]\n",
        ],
    );
    let none = bind("options { recursion no; }; view a { match-clients { 10/8; }; }; view b { };");
    assert!(!none.toml.contains("[resolver]") && !none.is_less(), "{:#?}", reported(&none));
}

#[test]
fn what_nomen_has_outside_views_alone_is_reported() {
    let policy = "response-policy { zone rpz.example; };";
    let rpz = zone("rpz.example", "rpz");
    let found = bind(&format!(
        "view a {{ match-clients {{ 10/8; }}; {policy} {rpz} }}; view b {{ match-clients {{ 11/8; }}; {policy} {rpz} }};\n\
         view c {{ recursion no; {rpz} catalog-zones {{ zone rpz.example; }}; }};"
    ));
    has(&found, &["[[zone]]\nname = \"rpz.example\"\nfile = \"/rpz\"\n\n", "file = \"/rpz\"\nview = \"c\""]);
    assert!(!found.toml.contains("answers") && !found.toml.contains("catalog"), "{}", found.toml);
    assert_eq!(outcomes(&found, "catalog-zones"), [Coverage::Narrower]);
    assert!(outcomes(&found, "zone rpz.example").contains(&Coverage::Narrower));
    // An update in one view would not change the zone of the other.
    let found = bind(&format!(
        "{KEY} options {{ recursion no; }}; view a {{ match-clients {{ 10/8; }}; zone a.example {{ type master; \
         file \"/a\"; allow-update {{ key xfer; }}; }}; }};\nview b {{ zone a.example {{ in-view a; }}; }};"
    ));
    assert_eq!(outcomes(&found, "in-view"), [Coverage::Narrower]);
    assert_eq!(found.toml.matches("[[zone]]").count(), 1, "{}", found.toml);
    // A client with the key of one view must not pass as that of the other.
    let key = |secret: &str| format!("key k {{ algorithm hmac-sha256; secret \"{secret}\"; }};");
    let found = bind(&format!(
        "options {{ recursion no; }}; view a {{ match-clients {{ 10/8; }}; {} }}; view b {{ {} zone a.example {{ \
         type master; file \"/a\"; allow-transfer {{ key k; }}; }}; }};",
        key("c2VjcmV0"),
        key("b3RoZXJz")
    ));
    assert_eq!(outcomes(&found, "key k")[..2], [Coverage::Narrower; 2]);
    assert!(!found.toml.contains("[[tsig-key]]") && !found.toml.contains("key:k"), "{}", found.toml);
}

/// nomen cannot name the other addresses of this machine, so a list that refuses them admits no client.
#[test]
fn recursion_that_depends_on_the_place_of_a_client_is_reported_where_it_is_lost() {
    for list in ["!{ localhost; }; 10/8;", "!localnets; any;"] {
        let found = bind(&format!(
            "options {{ recursion yes; }};\nview one {{ match-clients {{ 192.0.2.0/24; }}; recursion no; }};\n\
             view two {{ allow-query-cache {{ {list} }}; }};"
        ));
        assert_eq!(
            outcomes(&found, "allow-query-cache"),
            [Coverage::Narrower, Coverage::Translated],
            "{list}"
        );
        let access = part(&found, "[[resolver.access]]", "\n[[view]]");
        assert!(!access.contains("allow"), "{list}: {access}");
    }
}
