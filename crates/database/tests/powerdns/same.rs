//! A real PowerDNS and this reader on one database: the same records.

use std::fs;
use std::net::UdpSocket;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use database::{PowerDnsReader, ZoneContent};
use testkit::postgres::{PostgresDatabase, PostgresServer};
use zone::Zone;
use zone::load::{LoadConfig, load};
use zone::scan::TextSource;
use zone::store::diff;

use crate::sink::{key, settings};

/// Files with the schema, as packages install them.
const SCHEMAS: [&str; 2] = [
    "/usr/share/pdns-backend-pgsql/schema/schema.pgsql.sql",
    "/usr/share/doc/pdns-backend-pgsql/schema.pgsql.sql",
];
const MODULE: &str = "/usr/lib/x86_64-linux-gnu/pdns/libgpgsqlbackend.so";

/// A zone with every type that PowerDNS 4.7 has a text form for.
const ALL_TYPES: &str = r#"$ORIGIN all.example.
$TTL 3600
@ SOA ns1 host\.master 2024010101 10800 3600 604800 300
@ NS ns1
@ NS ns2.elsewhere.example.
@ 60 MX 10 mail
@ 60 MX 20 mail.elsewhere.example.
@ TXT "v=spf1 -all" "semi;colon \"q\" \\ \195\164"
@ CAA 0 issue "ca.example; x=y"
ns1 A 192.0.2.1
ns1 AAAA 2001:db8::1
mail A 192.0.2.2
*.wild CNAME ns1
a.b.c TXT "deep"
_sip._tcp SRV 5 10 5060 ns1
_443._tcp.www TLSA 3 1 1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
www HTTPS 1 . alpn=h2,h3 port=8443 ipv4hint=192.0.2.9 ipv6hint=2001:db8::9
svc SVCB 16 foo.elsewhere.example. mandatory=alpn alpn="h2"
n NAPTR 100 50 "s" "z3950+I2L+I2C" "" _z3950._tcp.all.example.
loc LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000.00m 10.00m
hinfo HINFO "x86" "linux"
rp RP host.all.example. text.all.example.
afsdb AFSDB 1 afs.all.example.
kx KX 10 kx.all.example.
cert CERT 1 12345 8 aGVsbG8=
dname DNAME elsewhere.example.
sub NS ns.sub
sub DS 12345 13 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
ns.sub A 192.0.2.5
ssh SSHFP 4 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
mailkey SMIMEA 3 1 1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
pgp OPENPGPKEY aGVsbG8=
uri URI 10 1 "https://example.com/a?b=c;d"
eui48 EUI48 00-00-5e-00-53-2a
eui64 EUI64 00-00-5e-ef-10-00-00-2a
l32 L32 10 10.1.2.0
l64 L64 10 2001:db8:1140:1000
lp LP 10 l64.all.example.
nid NID 10 14:4fff:ff20:ee64
dhcid DHCID AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=
apl APL 1:192.168.32.0/21 !1:192.168.38.0/28
ipseckey IPSECKEY 10 1 2 192.0.2.38 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==
csync CSYNC 66 3 A NS AAAA
esc\.aped\032x A 192.0.2.4
unknown TYPE65333 \# 3 010203
"#;

/// A running program, which ends with this.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Starts PowerDNS with its tables in a database; returns the port. Another process may take a port
/// meanwhile.
fn start(folder: &Path, database: &PostgresDatabase, port_of_database: u16) -> (Program, u16) {
    for _ in 0..5 {
        let (mut program, port) = try_start(folder, database, port_of_database);
        while program.0.try_wait().expect("a child").is_none() {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return (program, port);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    panic!("PowerDNS does not start: {}", fs::read_to_string(folder.join("log")).unwrap_or_default());
}

fn try_start(folder: &Path, database: &PostgresDatabase, port_of_database: u16) -> (Program, u16) {
    let free =
        UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port();
    let path = folder.display();
    let settings = format!(
        "launch=gpgsql\ngpgsql-host=127.0.0.1\ngpgsql-port={port_of_database}\ngpgsql-dbname={}\n\
         gpgsql-user=nomen\ngpgsql-dnssec=yes\nlocal-address=127.0.0.1\nlocal-port={free}\nsocket-dir={path}\n\
         guardian=no\ndaemon=no\nsetuid=\nsetgid=\nsecurity-poll-suffix=\ncache-ttl=0\nquery-cache-ttl=0\n\
         negquery-cache-ttl=0\nzone-cache-refresh-interval=0\nallow-axfr-ips=127.0.0.0/8\n",
        database.name
    );
    fs::write(folder.join("pdns.conf"), settings).expect("written");
    let log = fs::File::create(folder.join("log")).expect("a log");
    let mut command = Command::new("pdns_server");
    command.arg(format!("--config-dir={path}")).stdin(Stdio::null());
    command.stdout(log.try_clone().expect("the log")).stderr(log);
    (Program(command.spawn().expect("pdns_server")), free)
}

/// Transfers a zone from a server once it answers.
fn transferred(folder: &Path, port: u16, name: &str) -> Zone {
    let until = Instant::now() + Duration::from_secs(60);
    let text = loop {
        let mut kdig = Command::new("kdig");
        kdig.args(["@127.0.0.1", "-p", &port.to_string(), name, "AXFR", "+noall", "+answer", "+generic"]);
        let output = kdig.stdin(Stdio::null()).output().expect("kdig");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> =
            text.lines().filter(|line| !line.starts_with(';') && !line.is_empty()).collect();
        // The SOA record comes first and last.
        if output.status.success() && lines.len() > 1 && lines.first() == lines.last() {
            break lines[1..].join("\n") + "\n";
        }
        let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(Instant::now() < until, "no transfer of {name}: {text}\n{}", log());
        std::thread::sleep(Duration::from_millis(50));
    };
    zone_of(name, &text)
}

fn zone_of(name: &str, text: &str) -> Zone {
    let apex: wire::NameBuf = name.parse().expect("a name");
    let source = TextSource::bytes("transfer", text.as_bytes());
    let loaded = load(source, apex.as_name(), &key(), &LoadConfig::default(), |_| ControlFlow::Continue(()));
    loaded.unwrap_or_else(|fault| panic!("{fault}: {text}")).zone
}

#[test]
fn a_real_powerdns_has_the_same_records() {
    let schema = SCHEMAS.iter().find(|path| Path::new(path).exists());
    let (Some(schema), true) = (schema, Path::new(MODULE).exists()) else {
        return testkit::left_out("PowerDNS with PostgreSQL is not installed: pdns-backend-pgsql");
    };
    let server = PostgresServer::shared();
    let database = server.database();
    database.sql(&fs::read_to_string(schema).expect("a schema"));
    let folder = tempfile::tempdir().expect("a folder");
    let (_program, port) = start(folder.path(), &database, server.port());
    let plain =
        "$TTL 60\n@ SOA ns1.p.example. h.p.example. 1 2 3 4 5\n@ NS ns1.p.example.\nns1 A 192.0.2.1\n";
    let zones = [("all.example", ALL_TYPES), ("p.example", plain), ("1.0/25.2.0.192.in-addr.arpa", plain)];
    for (name, text) in zones {
        let file = folder.path().join("zone");
        fs::write(&file, text).expect("written");
        let config = format!("--config-dir={}", folder.path().display());
        run(Command::new("pdnsutil").args([&config, "load-zone", name]).arg(&file));
    }
    // Rows as other programs write them.
    database.sql(
        "INSERT INTO records (domain_id, name, type, content, ttl, prio, disabled)
         SELECT d.id, v.* FROM domains d, (VALUES
            ('t1.p.example', 'TXT', 'unquoted text', 60, NULL::int, false),
            ('t2.p.example', 'TXT', '\"' || repeat('a', 300) || '\"', 60, 0, false),
            ('t4.p.example', 'TXT', '', 60, 0, false),
            ('t5.p.example', 'TXT', '\"\\000\\255\" \"umlaut ä\"', 60, 0, false),
            ('m.p.example', 'MX', '10 mail.p.example', 60, NULL, false),
            ('s.p.example', 'SRV', '10 5060 sip.p.example.', 60, 7, false),
            ('no-ttl.p.example', 'A', ' 192.0.2.9 ', NULL, 0, false),
            ('off.p.example', 'A', '192.0.2.9', 60, 0, true),
            ('ent.p.example', NULL, NULL, NULL, NULL, false),
            ('p.example', 'RRSIG', 'SOA 13 2 60 20300101000000 20200101000000 1 p.example AAAA', 60, 0, false)
         ) AS v WHERE d.name = 'p.example'",
    );
    let mut reader = PowerDnsReader::connect(settings(&database.url())).expect("a connection");
    let listed = reader.zones().expect("a list");
    assert_eq!(listed.len(), zones.len());
    let mut compared = 0;
    reader
        .contents(&listed, &mut |_, apex, content| {
            let ours = match content {
                ZoneContent::Whole(zone) => zone,
                ZoneContent::Unfit(why) => panic!("{apex}: {why}"),
                ZoneContent::Steps(_) => panic!("no steps"),
            };
            let theirs = transferred(folder.path(), port, &apex.to_string());
            let change = diff(&theirs, &ours);
            assert!(change.is_empty(), "{apex}: {change:?}");
            compared += 1;
        })
        .expect("read");
    assert_eq!(compared, zones.len());
}
