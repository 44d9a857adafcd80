//! dnsdist, in Lua and in YAML.

use super::policy::{part, reported};
use super::*;

const LUA: &str = r#"-- The balancer of a provider.
setLocal("192.0.2.1:5300")
addLocal('[2001:db8::1]', { reusePort=true })
addTLSLocal("192.0.2.1", "/etc/d/chain.pem", "/etc/d/key.pem")
addDOHLocal("192.0.2.1:443", {"/etc/d/chain.pem"}, {"/etc/d/key.pem"}, {"/dns-query"}, { minTLSVersion="tls1.2" })
setACL({"10.0.0.0/8", "192.0.2.0/24"})
addACL("2001:db8::/32")
newServer({address="198.51.100.1", qps=1000, name="one"})
newServer("198.51.100.2:5353")
newServer{address="198.51.100.3:853", tls="openssl", subjectName="dns.example", pool="tls"}
newServer({address="198.51.100.4", pool={"tls", "corp"}, useProxyProtocol=true})
newServer({address="198.51.100.5", pool="corp"})
local pc = newPacketCache(10000, {maxTTL=86400})
getPool(""):setCache(pc)
local bad = { "203.0.113.0/24", "10.9.0.0/16" }
addAction(bad, DropAction())
addAction({"corp.example.", "corp.test"}, PoolAction("corp"))
addAction("www.corp.example", PoolAction("tls"))
addAction(QNameSuffixRule("bad.example"), RCodeAction(DNSRCode.REFUSED))
addAction(MaxQPSIPRule(50, 24, 56, 100), TCAction())
addAction(AllRule(), LogAction("/tmp/x"))
addAction(MaxQPSRule(100000), DropAction())
setServerPolicy(leastOutstanding)
setMaxTCPConnectionsPerClient(20)
local dbr = dynBlockRulesGroup()
dbr:setQueryRate(30, 10, "too many", 60)
dbr:setRCodeRate(DNSRCode.NXDOMAIN, 20, 10, "too many names", 60)
dbr:excludeRange({"10.1.0.0/16"})
function maintenance()
  dbr:apply()
end
webserver("127.0.0.1:8083")
"#;

#[test]
fn listeners_of_http3_and_http_stay() {
    let found = lua("setACL(\"10.0.0.0/8\")\nnewServer(\"198.51.100.1\")\n\
         addDOH3Local(\"192.0.2.1:8443\", \"/c\", \"/k\")\naddDOH3Local(\"192.0.2.2\", {\"/c\"}, {\"/k\"})\n\
         addDOHLocal(\"127.0.0.1:8053\", nil, nil, \"/dns-query\", {trustForwardedForHeader=true})\n\
         addDOHLocal(\"[::1]\")\naddDOHLocal(\"192.0.2.1:80\", {}, {}, \"/\")\naddDOH3Local(\"192.0.2.3\")\n");
    has(
        &found,
        &[
            "addr = [\"192.0.2.1@8443\", \"192.0.2.2@443\"]\nproto = [\"h3\"]\n",
            "addr = [\"127.0.0.1@8053\", \"[::1]@80\"]\nproto = [\"http\"]\n",
            "[[certificate]]\nchain = \"/c\"\nkey = \"/k\"\n",
        ],
    );
    assert!(!found.toml.contains("192.0.2.1@80\"") && !found.toml.contains("192.0.2.3"), "{}", found.toml);
    assert_eq!(outcomes(&found, "addDOHLocal 192"), [Coverage::Missing], "{:?}", found.accounts);
    assert_eq!(outcomes(&found, "addDOH3Local 192.0.2.3"), [Coverage::Missing], "{:?}", found.accounts);
    assert!(!found.toml.contains("\"/\""), "{}", found.toml);
    let said = format!("{:?}", found.accounts);
    assert!(said.contains("http-client-header") && said.contains("http-proxies-from"), "{said}");
    let yaml = "binds:\n- listen_address: 127.0.0.1:8053\n  protocol: DoH\n  doh:\n    paths:\n    - /q\n\
                - listen_address: 192.0.2.1:80\n  protocol: DoH\n\
                - listen_address: 192.0.2.1\n  protocol: DoH3\n  tls:\n    certificates:\n    - certificate: /c\n      \
                key: /k\nbackends:\n- address: 198.51.100.1\n";
    let found = of(PeerProgram::Dnsdist, &[("/etc/dnsdist/dnsdist.yml", yaml)]);
    has(
        &found,
        &[
            "addr = [\"127.0.0.1@8053\"]\nproto = [\"http\"]\n",
            "addr = [\"192.0.2.1@443\"]\nproto = [\"h3\"]\n",
            "https-paths = [\"/q\"]",
        ],
    );
    assert!(!found.toml.contains("192.0.2.1@80\""), "{}", found.toml);
}

fn lua(text: &str) -> Converted {
    of(PeerProgram::Dnsdist, &[("/etc/dnsdist/dnsdist.conf", text)])
}

#[test]
fn a_script_becomes_forwarding_with_its_clients_rules_and_rates() {
    let found = lua(LUA);
    has(
        &found,
        &[
            "addr = [\"192.0.2.1@5300\", \"[2001:db8::1]@53\"]",
            "addr = [\"192.0.2.1@853\"]\nproto = [\"tls\"]",
            "addr = [\"192.0.2.1@443\"]\nproto = [\"https\"]",
            "[[certificate]]\nchain = \"/etc/d/chain.pem\"\nkey = \"/etc/d/key.pem\"",
            "https-paths = [\"/dns-query\"]",
            "tcp-connections-per-client = 20",
            "validate = false",
            "answers-per-second = 30\nreferrals-per-second = 30\nnxdomains-per-second = 20\nerrors-per-second = 30\n",
            "ipv4-factors = [1, 8, 24]",
            "exempt = []\n",
            "refused-domains = [\"bad.example\"]",
        ],
    );
    let expected = r#"[[resolver.forward]]
domain = "corp.example"
servers = ["198.51.100.5"]

[[resolver.forward]]
domain = "corp.test"
servers = ["198.51.100.5"]

[[resolver.forward]]
domain = "."
servers = ["198.51.100.1", "198.51.100.2@5353"]

[[resolver.access]]
action = "allow"
from = ["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"]
"#;
    let reported = reported(&found);
    assert!(!reported.iter().any(|line| line.contains("refused to every client")), "{reported:#?}");
    assert_eq!(part(&found, "[[resolver.forward]]", "\0"), expected);
    let access = r#"[[server.access]]
action = "drop"
from = ["203.0.113.0/24", "10.9.0.0/16"]

[[server.access]]
action = "allow"
from = ["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"]

[[server.access]]
action = "drop"
from = ["any"]
"#;
    has(&found, &[access]);
    // An earlier rule decides about www.corp.example; a server behind PROXY headers is left out.
    assert!(!found.toml.contains("198.51.100.3") && !found.toml.contains("198.51.100.4"), "{}", found.toml);
    assert_eq!(outcomes(&found, "function maintenance"), [Coverage::Unneeded]);
    // Each statement that is missing has its place.
    let webserver = found.accounts.iter().find(|account| account.statement.starts_with("webserver"));
    let span = webserver.and_then(|account| account.span.clone()).expect("a place");
    assert_eq!(&found.texts[0].text[span.range], "webserver(\"127.0.0.1:8083\")");
}

/// What denies something and cannot be moved refuses recursion; the rest does not.
#[test]
fn what_denies_and_cannot_be_moved_refuses_recursion() {
    let refuses = |line: &str| {
        let found = lua(&format!("setACL(\"10.0.0.0/8\")\nnewServer(\"198.51.100.1\")\n{line}\n"));
        assert!(
            found.is_less() || !line.contains("Action") || line.starts_with("--"),
            "{line}: {:#?}",
            reported(&found)
        );
        !found.toml.contains("[[resolver.access]]\naction = \"allow\"")
    };
    for line in [
        "addAction(QTypeRule(DNSQType.ANY), DropAction())",
        "addAction(AndRule({QTypeRule(255), TCPRule(false)}), TCAction())",
        "addAction(NotRule(NetmaskGroupRule(\"10.1.0.0/16\")), DropAction())",
        "addAction(AllRule(), SpoofAction(\"192.0.2.9\"))",
        "addAction(MaxQPSIPRule(5), PoolAction(\"abuse\"))",
        "addAction(\"a.example\" .. x, DropAction())",
        "addResponseAction(QTypeRule(1), DropResponseAction())",
        "for i = 1, 3 do addAction(names[i], DropAction()) end",
        "if x then setACL({}) end",
        "function blockFilter(dq) return true end",
        "setACL(list)",
        "setACLFromFile(\"/etc/dnsdist/acl\")",
        "addDynBlocks(exceedQRate(20, 10), \"x\", 60)",
        "includeDirectory(\"/etc/dnsdist/conf.d\")",
        "local bad = {\"10.1.0.0/16\"}\ntable.insert(bad, \"10.2.0.0/16\")\naddAction(bad, DropAction())",
        "addAction(\"(\" \"x\", DropAction())",
        "setACL({\"!10.1.0.0/16\", \"10.0.0.0/8\"})",
        "local x = 5; if x > 3 then addAction(AllRule(), DropAction()) end",
        "addAction(AllRule(), DropAction()) addLocal(\"192.0.2.1\")",
    ] {
        assert!(refuses(line), "{line}");
    }
    for line in [
        "addAction(AllRule(), LogAction())",
        "addAction(MaxQPSRule(5), DropAction())",
        "addAction(QTypeRule(1), AllowAction())",
        "addAction(AllRule(), QPSAction(1000))",
        "addAction(AndRule({MaxQPSIPRule(5), QTypeRule(255)}), DropAction())",
        "addAction(AndRule({makeRule(\"10.1.0.0/16\"), QTypeRule(255)}), DropAction())",
        "setFrob(1)",
        "-- addAction(QTypeRule(1), DropAction())",
        "--[[ function x() end\n ]] local y = \"end\"",
    ] {
        assert!(!refuses(line), "{line}");
    }
}

#[test]
fn conditions_that_are_met_by_more_queries_are_reported() {
    let found = lua(
        "newServer(\"198.51.100.1\")\naddAction(AndRule({QNameSuffixRule({\"x.example\"}), TCPRule(true)}), DropAction())\n\
         addAction(\"192.0.2.0/24\", PoolAction(\"other\"))\naddAction(\"gone.example\", PoolAction(\"gone\"))\n",
    );
    has(
        &found,
        &[
            "refused-domains = [\"x.example\", \"gone.example\"]",
            "action = \"refuse\"\nfrom = [\"192.0.2.0/24\"]",
            // Without a list, dnsdist answers private networks.
            "\"172.16.0.0/12\",",
        ],
    );
    let narrower = found.accounts.iter().filter(|one| one.outcome == Coverage::Narrower).count();
    assert!(narrower >= 3, "{:#?}", reported(&found));
}

#[test]
fn a_balancer_without_servers_answers_no_client() {
    let found = lua(
        "setACL(\"0.0.0.0/0\")\nnewServer({address=\"198.51.100.1\", tls=\"openssl\", validateCertificates=false, dohPath=\"/d\"})\n",
    );
    assert!(!found.toml.contains("[resolver]") && found.is_less(), "{}", found.toml);
    let found = lua("newServer({address=\"dns.example\"})\nnewServer({address=\"[2001:db8::7]:53\"})\n");
    has(&found, &["servers = [\"2001:db8::7\"]"]);
    let tls =
        |more: &str| lua(&format!("newServer({{address=\"198.51.100.1:8853\", tls=\"openssl\"{more}}})\n"));
    has(&tls(""), &["servers = [\"198.51.100.1@8853#198.51.100.1\"]"]);
    has(&tls(", dohPath=\"/d\""), &["servers = [\"https://198.51.100.1:8853/d\"]"]);
    let named = ", dohPath=\"/d\", subjectName=\"dns.example\"";
    has(&tls(named), &["servers = [\"https://dns.example:8853/d@198.51.100.1\"]"]);
    has(&tls(", validateCertificates=false"), &["servers = [\"198.51.100.1@8853#opportunistic\"]"]);
}

const YAML: &str = r#"binds:
  - listen_address: "192.0.2.1:5300"
    protocol: "Do53"
  - listen_address: "192.0.2.1:853"
    protocol: "DoT"
    tls:
      certificates:
        - certificate: "chain.pem"
          key: "/etc/d/key.pem"
acl:
  - 10.0.0.0/8
backends:
  - address: "198.51.100.1"
    protocol: Do53
  - address: "198.51.100.2"
    protocol: DoT
    pools: ["corp"]
    tls:
      subject_name: dns.example
  - address: "[2001:db8::3]"
    protocol: DoH
    pools: ["corp"]
    tls:
      subject_name: doh.example
selectors:
  - name: bad
    type: NetmaskGroup
    netmasks: ["203.0.113.0/24"]
query_rules:
  - name: block
    selector:
      type: ByName
      selector_name: bad
    action:
      type: Drop
  - selector:
      type: QNameSuffix
      suffixes: ["corp.example."]
    action:
      type: Pool
      pool_name: corp
  - selector:
      type: MaxQPSIP
      qps: 40
    action:
      type: Drop
dynamic_rules:
  - name: usual
    exclude_ranges: ["10.1.0.0/16"]
    rules:
      - type: rcode-rate
        rcode: ServFail
        rate: 7
        seconds: 10
        action: Drop
        action_duration: 60
        comment: too many failures
      - type: rcode-ratio
        rcode: ServFail
        ratio: 0.5
        minimum_number_of_responses: 9
        seconds: 10
        action_duration: 60
        comment: too many
tuning:
  tcp:
    max_connections_per_client: 9
webserver:
  listen_addresses: ["127.0.0.1:8083"]
"#;

#[test]
fn settings_in_yaml_are_the_same() {
    let found = of(PeerProgram::Dnsdist, &[("/etc/dnsdist/dnsdist.yml", YAML)]);
    has(
        &found,
        &[
            "addr = [\"192.0.2.1@5300\"]",
            "addr = [\"192.0.2.1@853\"]\nproto = [\"tls\"]",
            "chain = \"/etc/dnsdist/chain.pem\"\nkey = \"/etc/d/key.pem\"",
            "domain = \"corp.example\"\nservers = [\"198.51.100.2@853#dns.example\", \"https://doh.example/dns-query@2001:db8::3\"]",
            "domain = \".\"\nservers = [\"198.51.100.1\"]",
            "action = \"allow\"\nfrom = [\"10.0.0.0/8\"]",
            "action = \"drop\"\nfrom = [\"203.0.113.0/24\"]",
            "answers-per-second = 40\nreferrals-per-second = 40\nnxdomains-per-second = 40\nerrors-per-second = 7\n",
            "tcp-connections-per-client = 9",
        ],
    );
    assert_eq!(outcomes(&found, "webserver"), [Coverage::Missing]);
    let more =
        format!("{YAML}response_rules:\n  - selector:\n      type: All\n    action:\n      type: Drop\n");
    let found = of(PeerProgram::Dnsdist, &[("/etc/dnsdist/dnsdist.yml", &more)]);
    has(&found, &["action = \"refuse\"\nfrom = [\"any\"]"]);
}

#[test]
fn both_forms_are_recognised() {
    let files = [("/a", LUA), ("/b", YAML), ("/dnsdist.conf", "x = 1\n")];
    for path in ["/a", "/b", "/dnsdist.conf"] {
        let found = convert(Path::new(path), None, &memory(&files), Path::new(""));
        assert_eq!(found.map(|found| found.program).ok(), Some(PeerProgram::Dnsdist), "{path}");
    }
}
