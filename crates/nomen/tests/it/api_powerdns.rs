//! The API of PowerDNS with curl: zones, records, comments, rights, crashes.

use serde_json::{Value, json};

use crate::api::{ALL, Api, Got, Token, curl, token};
use crate::changes;
use crate::support::{APEX, Server};

/// Path of the zones.
const ZONES: &str = "/api/v1/servers/localhost/zones";

impl Api {
    /// Sends a request as clients of PowerDNS do, with a body if there is one.
    fn pdns(&self, token: &Token, method: &str, path: &str, body: Option<&Value>) -> Got {
        let (key, url) = (format!("X-API-Key: {}", token.secret), format!("http://{}{path}", self.at));
        let body = body.map(ToString::to_string);
        let mut arguments = vec!["-X", method, "-H", &key, &url];
        body.iter().for_each(|body| arguments.extend(["-d", body]));
        curl(&arguments)
    }

    fn create(&self, token: &Token, name: &str) -> Got {
        let zone = json!({"name": name, "kind": "Native", "nameservers": ["ns1.example."]});
        self.pdns(token, "POST", ZONES, Some(&zone))
    }

    fn patch(&self, token: &Token, zone: &str, rrset: Value) -> Got {
        self.pdns(token, "PATCH", &format!("{ZONES}/{zone}"), Some(&json!({"rrsets": [rrset]})))
    }

    /// Returns the RRset at a name.
    fn rrset(&self, token: &Token, zone: &str, name: &str, rtype: &str) -> Value {
        let path = format!("{ZONES}/{zone}?rrset_name={name}&rrset_type={rtype}");
        self.pdns(token, "GET", &path, None).with(200)["rrsets"][0].clone()
    }
}

/// Returns an RRset that replaces another one.
fn replace(name: &str, rtype: &str, contents: &[&str]) -> Value {
    let records: Vec<Value> = contents.iter().map(|content| json!({"content": content})).collect();
    json!({"changetype": "REPLACE", "name": name, "type": rtype, "ttl": 60, "records": records})
}

#[test]
fn records_comments_and_disabled_records_stay_after_a_crash() {
    let admin = token("admin", ALL);
    let api = Api::start("", &[&admin]);
    let made = api.create(&admin, "crash.test.").with(201);
    assert_eq!(
        (&made["id"], &made["kind"], &made["soa_edit_api"]),
        (&json!("crash.test."), &json!("Native"), &json!("DEFAULT"))
    );
    let mut www = replace("www.crash.test.", "A", &["192.0.2.1"]);
    www["records"] = json!([{"content": "192.0.2.1"}, {"content": "192.0.2.2", "disabled": true}]);
    www["comments"] = json!([{"content": "the web", "account": "admin", "modified_at": 5}]);
    let changed = api.patch(&admin, "crash.test.", www);
    assert_eq!((changed.status, &*changed.body), (204, ""), "{changed:?}");
    assert_eq!(api.server.query(&["www.crash.test", "A", "+short"]), "192.0.2.1\n");
    let metadata = json!({"metadata": ["paid"]});
    let path = format!("{ZONES}/crash.test./metadata/X-STATE");
    assert_eq!(api.pdns(&admin, "PUT", &path, Some(&metadata)).status, 200);
    let folder = api.server.kill();
    let api = Api::start_in(folder, "", &[&admin], "");
    let expected = json!({
        "name": "www.crash.test.", "type": "A", "ttl": 60,
        "records": [{"content": "192.0.2.1", "disabled": false}, {"content": "192.0.2.2", "disabled": true}],
        "comments": [{"content": "the web", "account": "admin", "modified_at": 5}],
    });
    assert_eq!(api.rrset(&admin, "crash.test.", "www.crash.test.", "A"), expected);
    assert_eq!(api.pdns(&admin, "GET", &path, None).with(200)["metadata"], json!(["paid"]));
    assert_eq!(api.server.query(&["www.crash.test", "A", "+short"]), "192.0.2.1\n");
    let serial = &api.pdns(&admin, "GET", &format!("{ZONES}/crash.test."), None).with(200)["serial"];
    assert_eq!(serial.as_u64().map(|serial| serial % 100), Some(2), "the second version of the day");
}

#[test]
fn a_zone_that_is_created_again_has_nothing_of_the_old_one() {
    let admin = token("admin", ALL);
    let api = Api::start("", &[&admin]);
    assert_eq!(api.create(&admin, "again.test.").status, 201);
    let comment = json!([{"content": "old", "account": "admin"}]);
    let ns = json!({"changetype": "REPLACE", "name": "again.test.", "type": "NS", "comments": comment});
    assert_eq!(api.patch(&admin, "again.test.", ns).status, 204);
    assert_eq!(api.create(&admin, "again.test.").with(409), json!({"error": "Conflict"}));
    let path = format!("{ZONES}/again.test.");
    assert_eq!(api.pdns(&admin, "DELETE", &path, None).status, 204);
    assert_eq!(api.pdns(&admin, "GET", &path, None).with(404), json!({"error": "Not Found"}));
    assert_eq!(api.create(&admin, "again.test.").status, 201);
    assert_eq!(api.rrset(&admin, "again.test.", "again.test.", "NS")["comments"], json!([]));
    // The native API removes it as well.
    assert_eq!(
        api.patch(
            &admin,
            "again.test.",
            json!({"changetype": "REPLACE", "name": "again.test.", "type": "NS",
        "comments": [{"content": "old", "account": "admin"}]})
        )
        .status,
        204
    );
    assert_eq!(api.pdns(&admin, "DELETE", "/api/nomen/v1/zones/again.test", None).status, 200);
    assert_eq!(api.create(&admin, "again.test.").status, 201);
    assert_eq!(api.rrset(&admin, "again.test.", "again.test.", "NS")["comments"], json!([]));
}

#[test]
fn comments_of_a_zone_that_an_operator_removes_are_removed() {
    let admin = token("admin", ALL);
    let api = Api::start("", &[&admin]);
    let files = || std::fs::read_dir(api.server.path("state/api")).map_or(0, |files| files.flatten().count());
    assert_eq!(api.create(&admin, "again.test.").status, 201);
    let comment = json!([{"content": "old", "account": "admin"}]);
    let ns = json!({"changetype": "REPLACE", "name": "again.test.", "type": "NS", "comments": comment});
    assert_eq!(api.patch(&admin, "again.test.", ns).status, 204);
    assert_eq!(files(), 1);
    api.server.ctl_json(&["zone", "remove", "again.test"]);
    assert_eq!(files(), 0, "the document is gone with the zone");
    assert_eq!(api.create(&admin, "again.test.").status, 201);
    assert_eq!(api.rrset(&admin, "again.test.", "again.test.", "NS")["comments"], json!([]));
}

#[test]
fn a_token_sees_and_changes_what_it_has_rights_for() {
    let rights =
        "{ right = \"change\", zones = [\"mine.test\"], names = [\"_acme-challenge.*\"], types = [\"TXT\"] }";
    let (admin, acme) = (token("admin", ALL), token("acme", rights));
    let api = Api::start("", &[&admin, &acme]);
    for zone in ["mine.test.", "other.test."] {
        assert_eq!(api.create(&admin, zone).status, 201);
    }
    let listed = api.pdns(&acme, "GET", ZONES, None).with(200);
    let names: Vec<&Value> = listed.as_array().expect("a list").iter().map(|zone| &zone["name"]).collect();
    assert_eq!(names, [&json!("mine.test.")]);
    let challenge = replace("_acme-challenge.mine.test.", "TXT", &["\"x\""]);
    assert_eq!(api.patch(&acme, "mine.test.", challenge).status, 204);
    let seen = api.pdns(&acme, "GET", &format!("{ZONES}/mine.test."), None).with(200)["rrsets"].clone();
    assert_eq!(seen.as_array().map(Vec::len), Some(1), "{seen}");
    let refused = api.patch(&acme, "mine.test.", replace("www.mine.test.", "A", &["192.0.2.1"])).with(403);
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("\"change\"")), "{refused}");
    assert_eq!(
        api.patch(&acme, "other.test.", replace("_acme-challenge.other.test.", "TXT", &["\"x\""])).status,
        404
    );
    assert_eq!(api.create(&acme, "new.test.").status, 403);
    assert_eq!(api.pdns(&acme, "DELETE", &format!("{ZONES}/mine.test."), None).status, 403);
    assert_eq!(api.pdns(&acme, "GET", &format!("{ZONES}/mine.test./export"), None).status, 403);
    let found =
        api.pdns(&acme, "GET", "/api/v1/servers/localhost/search-data?q=*test*&max=50", None).with(200);
    assert_eq!(found.as_array().map(Vec::len), Some(2), "its zone and its record: {found}");
    assert_eq!(api.pdns(&acme, "GET", "/api/v1/servers/localhost/config", None).status, 403);
    let forged = Token { secret: "wrong".into(), block: String::new() };
    let error = api.pdns(&forged, "GET", ZONES, None);
    assert!(error.with(401)["error"].is_string(), "{error:?}");
}

#[test]
fn a_request_with_one_fault_changes_nothing() {
    let admin = token("admin", ALL);
    let api = Api::start("", &[&admin]);
    let both =
        json!({"rrsets": [replace("a.example.", "A", &["192.0.2.1"]), replace("b.example.", "A", &["x"])]});
    let path = format!("{ZONES}/example.");
    assert_eq!(api.pdns(&admin, "PATCH", &path, Some(&both)).status, 422);
    assert_eq!(api.server.query(&["a.example", "A", "+short"]), "");
    for (rrset, words) in [
        (replace("relative", "A", &["192.0.2.1"]), "not canonical"),
        (replace("www.other.", "A", &["192.0.2.1"]), "out of zone"),
        (replace("x.example.", "CNAME", &["a.", "b."]), "only one"),
        (replace("ns1.example.", "CNAME", &["a."]), "Conflicts"),
        (
            replace("x.example.", "RRSIG", &["A 13 2 60 20300101000000 20200101000000 1 example. AAAA"]),
            "signer",
        ),
        (json!({"changetype": "DELETE", "name": "example.", "type": "SOA"}), "SOA"),
    ] {
        let error = api.patch(&admin, "example.", rrset).with(422)["error"].to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    // The zone of the configuration is edited, and not removed.
    assert_eq!(api.patch(&admin, "example.", replace("x.example.", "A", &["192.0.2.7"])).status, 204);
    assert_eq!(api.server.query(&["x.example", "A", "+short"]), "192.0.2.7\n");
    let refused = api.pdns(&admin, "DELETE", &path, None).with(422)["error"].to_string();
    assert!(refused.contains("was not added at run time"), "{refused}");
}

#[test]
fn a_zone_that_the_configuration_does_not_offer_names_the_key() {
    let admin = token("admin", ALL);
    let folder = changes::folder(&APEX.replace("example.", "@"));
    let api =
        Api::start_in(folder, "", &[&admin], "[[zone]]\nname = \"fixed.example\"\nfile = \"example.zone\"\n");
    let refused =
        api.patch(&admin, "fixed.example.", replace("x.fixed.example.", "A", &["192.0.2.7"])).with(422);
    assert!(refused["error"].to_string().contains("`api = true`"), "{refused}");
    let refused =
        api.pdns(&admin, "PUT", &format!("{ZONES}/fixed.example."), Some(&json!({"dnssec": true}))).with(422);
    assert!(refused["error"].to_string().contains("`dnssec-policy`"), "{refused}");
}

#[test]
fn a_signed_zone_shows_its_keys_and_no_signatures() {
    let admin = token("admin", ALL);
    let api = Api::start("", &[&admin]);
    let zone =
        json!({"name": "signed.test.", "kind": "Master", "nameservers": ["ns1.example."], "dnssec": true});
    assert_eq!(api.pdns(&admin, "POST", ZONES, Some(&zone)).status, 201);
    crate::support::eventually("the zone is signed", &api.server, || is_signed(&api.server));
    let keys = api.pdns(&admin, "GET", &format!("{ZONES}/signed.test./cryptokeys"), None).with(200);
    let keys = keys.as_array().expect("a list").clone();
    let ds = keys.iter().flat_map(|key| key["ds"].as_array().cloned().unwrap_or_default()).count();
    assert!(ds >= 2 && keys.iter().all(|key| key.get("privatekey").is_none()), "{keys:?}");
    let one = api
        .pdns(&admin, "GET", &format!("{ZONES}/signed.test./cryptokeys/{}", keys[0]["id"]), None)
        .with(200);
    assert_eq!(one["dnskey"], keys[0]["dnskey"]);
    assert_eq!(
        api.patch(&admin, "signed.test.", replace("www.signed.test.", "A", &["192.0.2.1"])).status,
        204
    );
    let shown = api.pdns(&admin, "GET", &format!("{ZONES}/signed.test."), None).with(200);
    assert_eq!(shown["dnssec"], true);
    let types: Vec<String> =
        shown["rrsets"].as_array().expect("a list").iter().map(|set| set["type"].to_string()).collect();
    assert_eq!(types, ["\"NS\"", "\"SOA\"", "\"A\""]);
    assert!(api.server.query(&["www.signed.test", "A", "+dnssec"]).contains("RRSIG"));
}

fn is_signed(server: &Server) -> bool {
    server.query(&["signed.test", "SOA", "+dnssec"]).contains("RRSIG")
}
