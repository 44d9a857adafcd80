//! `nomen zone sign` and `nomen key`: other programs accept the zones and the keys, and nomen theirs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::{Server, free_address, run, text};

/// A zone with every kind of name: wildcards, empty non-terminals, secure and insecure delegations with glue,
/// an insecure one below an empty non-terminal, DNAME, an alias, letters in both cases.
const ZONE: &str = "\
$TTL 3600
@ SOA ns1 hostmaster 7 7200 3600 1209600 300
@ NS ns1
@ NS ns2.sub
ns1 A 192.0.2.1
*.wild TXT \"w\"
a.b.c.d TXT \"below empty non-terminals\"
Mixed.Case MX 10 NS1
sec NS ns.sec
sec DS 12345 13 2 00000000000000000000000000000000000000000000000000000000000000AA
ns.sec A 192.0.2.9
insec NS ns.insec
insec A 192.0.2.10
ns.insec A 192.0.2.11
sub NS ns2.sub
ns2.sub A 192.0.2.12
x.y.ent NS ns.elsewhere.
dn DNAME elsewhere.
alias CNAME ns1
";
/// The algorithms that nomen signs with.
const ALGORITHMS: [&str; 5] = ["rsasha256", "rsasha512", "ecdsap256sha256", "ecdsap384sha384", "ed25519"];

/// Returns a folder with the unsigned zone `plain` and an empty folder `keys`.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plain"), ZONE).expect("written");
    fs::create_dir(folder.path().join("keys")).expect("made");
    folder
}

/// Runs nomen in the folder. Returns the exit code, output and errors.
fn nomen(folder: &TempDir, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(folder.path(), arguments);
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Runs nomen, which must succeed. Returns output and errors.
fn good(folder: &TempDir, arguments: &[&str]) -> (String, String) {
    let (code, printed, said) = nomen(folder, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {printed}{said}");
    (printed, said)
}

/// Runs another program in the folder, which must succeed. Returns its output.
fn other(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output().expect("it runs");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    said
}

/// Generates a key; returns the path of its files without their ends.
fn generate(folder: &TempDir, algorithm: &str, role: &str) -> String {
    let words = ["key", "generate", "example.com", "-a", algorithm, "--role", role, "-K", "keys"];
    good(folder, &words).0.trim_end().to_owned()
}

fn sign(folder: &TempDir, options: &[&str]) -> String {
    let words = ["zone", "sign", "example.com", "plain", "-K", "keys", "-o", "signed"];
    good(folder, &[&words, options].concat()).1
}

/// Has every verifier read the zone `signed`.
fn verify(folder: &TempDir) {
    good(folder, &["zone", "check", "--dnssec", "example.com", "signed"]);
    other(folder.path(), "dnssec-verify", &["-o", "example.com", "signed"]);
    other(folder.path(), "ldns-verify-zone", &["signed"]);
    other(folder.path(), "kzonecheck", &["-o", "example.com", "signed"]);
}

/// The ways of signing that verifiers are shown.
const WAYS: [&[&str]; 5] = [
    &[],
    &["--nsec3"],
    &["--nsec3", "--opt-out"],
    &["--nsec3", "--salt", "abcd", "--iterations", "3", "--allow-iterations"],
    &["--cds", "--zonemd", "--jitter", "1d", "--serial", "unixtime"],
];

#[test]
fn other_verifiers_accept_signed_zones() {
    if !testkit::has_programs(&["dnssec-verify", "ldns-verify-zone", "kzonecheck"]) {
        return;
    }
    // Each algorithm alone, once with one key and once with two; then all together.
    for algorithm in ALGORITHMS {
        let folder = folder();
        generate(&folder, algorithm, "csk");
        for way in WAYS {
            sign(&folder, way);
            good(&folder, &["zone", "check", "--dnssec", "example.com", "signed"]);
            other(folder.path(), "ldns-verify-zone", &["signed"]);
            other(folder.path(), "dnssec-verify", &["-z", "-o", "example.com", "signed"]);
        }
        generate(&folder, algorithm, "zsk");
        sign(&folder, &[]);
        verify(&folder);
    }
    let folder = folder();
    for algorithm in ALGORITHMS {
        generate(&folder, algorithm, "ksk");
        generate(&folder, algorithm, "zsk");
    }
    for way in WAYS {
        sign(&folder, way);
        verify(&folder);
    }
}

/// The lines of a zone that is not signed.
fn unsigned(lines: &str) -> Vec<String> {
    let made = ["RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNSKEY"];
    let is_plain = |line: &&str| !line.split(' ').nth(3).is_some_and(|rtype| made.contains(&rtype));
    lines.lines().filter(is_plain).map(str::to_owned).collect()
}

#[test]
fn other_records_stay_and_a_signed_zone_is_signed_again() {
    let folder = folder();
    generate(&folder, "ed25519", "csk");
    let (plain, _) = good(&folder, &["zone", "dump", "example.com", "plain"]);
    let at = ["--at", "1800000000"];
    let (once, said) = {
        let words = ["zone", "sign", "example.com", "plain", "-K", "keys", "--at", "1800000000"];
        good(&folder, &words)
    };
    assert_eq!(unsigned(&once), plain.lines().collect::<Vec<_>>(), "{said}");
    assert!(said.starts_with("zone example.com.: signed, serial 7, "), "{said}");
    // The keys sign from today on, which is before.
    fs::write(folder.path().join("once"), &once).expect("written");
    let words = ["zone", "sign", "example.com", "once", "-K", "keys"];
    let (again, said) = good(&folder, &[&words[..], &at].concat());
    assert_eq!(again, once, "Ed25519 signs the same data alike");
    assert!(said.contains(" old ones dropped"), "{said}");
    // From NSEC to NSEC3 and back.
    let (hashed, _) = good(&folder, &[&words[..], &at, &["--nsec3"]].concat());
    fs::write(folder.path().join("once"), &hashed).expect("written");
    assert!(hashed.contains(" NSEC3 ") && !hashed.contains(" NSEC "));
    assert_eq!(good(&folder, &[&words[..], &at].concat()).0, once);
}

#[test]
fn the_verification_can_be_left_to_other_programs() {
    if !testkit::has_programs(&["dnssec-verify", "ldns-verify-zone", "kzonecheck"]) {
        return;
    }
    let folder = folder();
    generate(&folder, "ecdsap256sha256", "ksk");
    generate(&folder, "ecdsap256sha256", "zsk");
    assert!(!sign(&folder, &[]).contains("verified"));
    let said = sign(&folder, &["--no-verify", "--nsec3"]);
    assert!(said.trim_end().ends_with("; not verified"), "{said}");
    verify(&folder);
}

#[test]
fn an_output_file_is_replaced_whole_and_keeps_its_mode() {
    let folder = folder();
    generate(&folder, "ed25519", "csk");
    let path = folder.path().join("signed");
    fs::write(&path, "old").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
    let words = ["zone", "sign", "example.com", "plain", "-K", "keys", "-o", "signed"];
    let (code, _, said) = nomen(&folder, &[&words[..], &["--expiration", "20200101000000"]].concat());
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(fs::read_to_string(&path).expect("text"), "old");
    good(&folder, &words);
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o640);
    assert!(fs::read_to_string(&path).expect("text").contains(" RRSIG SOA 15 2 3600 "));
    assert!(!folder.path().join("signed.new").exists());
    let elsewhere = ["zone", "sign", "example.com", "plain", "-K", "keys", "-o", "none/signed"];
    assert_eq!(nomen(&folder, &elsewhere).0, Some(3));
}

#[test]
fn what_would_break_validation_is_refused() {
    let folder = folder();
    fs::create_dir(folder.path().join("none")).expect("made");
    let key = generate(&folder, "ecdsap256sha256", "csk");
    let refused = |options: &[&str], code, words: &str| {
        let all = [&["zone", "sign", "example.com", "plain"], options].concat();
        let (status, printed, said) = nomen(&folder, &all);
        assert_eq!((status, printed.as_str()), (Some(code), ""), "{options:?}: {said}");
        assert!(said.contains(words), "{options:?}: {said}");
    };
    let with_key = |options: &[&str], words| refused(&[&["-k", &key], options].concat(), 1, words);
    with_key(&["--expiration", "20200101000000"], "the signatures would have expired already");
    with_key(
        &["--inception", "20991231000000", "--expiration", "21000101000000"],
        "the signatures would not be valid yet",
    );
    with_key(&["--expiration", "1d", "--jitter", "2d"], "the jitter is too large");
    with_key(&["--nsec3", "--iterations", "1"], "RFC 9276 says 0; --allow-iterations permits it");
    with_key(&["--nsec3", "--iterations", "51", "--allow-iterations"], "more than 50 NSEC3 iterations");
    refused(&["-K", "none"], 1, "the folder has no key of the zone");
    refused(&["-K", "missing"], 3, "missing: there is no such file");
    refused(&[], 2, "--keys <FOLDER>");
    refused(&["-k", &key, "--opt-out"], 2, "--nsec3");
    refused(&["-k", &key, "--nsec3", "--salt", "xy"], 2, "--salt: not hexadecimal");
    // Keys: not of the zone, not active, published without signatures of its algorithm.
    let stranger = good(&folder, &["key", "generate", "example.net"]).0;
    refused(&["-k", stranger.trim_end()], 1, "is of another zone, example.net.");
    let words = ["key", "generate", "example.com", "--activate", "30d", "--publish", "0s", "-a", "ed25519"];
    let later = good(&folder, &words).0;
    refused(&["-k", later.trim_end()], 1, "no key signs now");
    refused(&["-k", &key, "-k", later.trim_end()], 1, "no key of this algorithm signs");
    // A damaged key, by file and line.
    let private = folder.path().join(format!("{key}.private"));
    let good_text = fs::read_to_string(&private).expect("text");
    fs::write(&private, good_text.replace("PrivateKey: ", "PrivateKey: !")).expect("written");
    refused(&["-K", "keys"], 1, ".private:3: the value of `PrivateKey` is not base64");
    fs::write(&private, &good_text).expect("written");
    // Names outside of the zone.
    fs::write(folder.path().join("plain"), format!("{ZONE}outside.test. A 192.0.2.1\n")).expect("written");
    refused(&["-K", "keys"], 1, "outside.test.");
}

#[test]
fn bind_signs_with_our_keys_and_we_with_its() {
    let programs = ["dnssec-keygen", "dnssec-signzone", "dnssec-dsfromkey", "dnssec-verify"];
    if !testkit::has_programs(&programs) {
        return;
    }
    for algorithm in ALGORITHMS {
        let folder = folder();
        let (ksk, zsk) = (generate(&folder, algorithm, "ksk"), generate(&folder, algorithm, "zsk"));
        let arguments = ["-S", "-K", "keys", "-o", "example.com", "-f", "by-bind", "plain"];
        other(folder.path(), "dnssec-signzone", &arguments);
        good(&folder, &["zone", "check", "--dnssec", "--fail-on", "warning", "example.com", "by-bind"]);
        let by_bind = fs::read_to_string(folder.path().join("by-bind")).expect("text");
        for key in [&ksk, &zsk] {
            let tag: u16 = key.rsplit('+').next().and_then(|tag| tag.parse().ok()).expect("a tag");
            assert!(by_bind.contains(&format!(" {tag} example.com.\n")), "{tag}: {by_bind}");
        }
        let ds = |key: &str| {
            let ours = good(&folder, &["key", "export-ds", key]).0;
            let theirs = other(folder.path(), "dnssec-dsfromkey", &["-2", key]);
            assert_eq!(ours, theirs);
        };
        ds(&ksk);
        // And the other way round, with the algorithm's name as BIND has it.
        let folder = folder_of_bind(algorithm);
        for path in fs::read_dir(folder.path().join("keys")).expect("a folder") {
            let path = path.expect("a file").path();
            if path.extension().is_some_and(|end| end == "key") {
                let key = format!("keys/{}", path.file_stem().expect("a name").to_string_lossy());
                let ours = good(&folder, &["key", "export-ds", &key]).0;
                assert_eq!(ours, other(folder.path(), "dnssec-dsfromkey", &["-2", &key]));
            }
        }
        sign(&folder, &["--nsec3"]);
        other(folder.path(), "dnssec-verify", &["-o", "example.com", "signed"]);
    }
}

/// Returns a folder with the zone, and keys of BIND.
fn folder_of_bind(algorithm: &str) -> TempDir {
    let folder = folder();
    let bits: &[&str] = if algorithm.starts_with("rsa") { &["-b", "2048"] } else { &[] };
    for flag in [&["-f", "KSK"][..], &[]] {
        let arguments = [&["-q", "-K", "keys", "-a", algorithm], bits, flag, &["example.com"]].concat();
        other(folder.path(), "dnssec-keygen", &arguments);
    }
    folder
}

#[test]
fn keys_of_other_programs_are_taken_over() {
    let folder = folder();
    // As `pdnsutil export-zone-key` prints them: without times.
    let key = generate(&folder, "ecdsap384sha384", "ksk");
    let private = fs::read_to_string(folder.path().join(format!("{key}.private"))).expect("text");
    let lines: Vec<&str> = private.lines().take(3).collect();
    let exported = lines.join("\n").replace("v1.3", "v1.2");
    fs::write(folder.path().join("exported"), exported + "\n").expect("written");
    fs::create_dir(folder.path().join("taken")).expect("made");
    let import = |file: &str, more: &[&str]| {
        let words = ["key", "import", "example.com", file, "--role", "ksk", "-K", "taken", "--json"];
        let (printed, _) = good(&folder, &[&words, more].concat());
        serde_json::from_str::<serde_json::Value>(&printed).expect("JSON")
    };
    let ds = |key: &str| good(&folder, &["key", "export-ds", key]).0;
    let taken = import("exported", &[]);
    assert_eq!(ds(taken["file"].as_str().expect("a path")), ds(&key));
    assert_eq!((&taken["state"], &taken["role"]), (&"active".into(), &"ksk".into()));
    // A second time it is there.
    let again = ["key", "import", "example.com", "exported", "--role", "ksk", "-K", "taken"];
    let (code, _, said) = nomen(&folder, &again);
    assert!(code == Some(1) && said.contains("the file is there already"), "{said}");
    if !testkit::has_programs(&["openssl"]) {
        return;
    }
    let kinds: [(&[&str], u64, &[&str]); 5] = [
        (&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], 8, &[]),
        (&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:3072"], 10, &["-a", "RSASHA512"]),
        (&["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], 13, &[]),
        (&["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"], 14, &[]),
        (&["-algorithm", "ED25519"], 15, &[]),
    ];
    for (kind, number, more) in kinds {
        let arguments = [&["genpkey", "-out", "pem"], kind].concat();
        other(folder.path(), "openssl", &arguments);
        let taken = import("pem", more);
        assert_eq!(taken["algorithm"], number);
        let file = taken["file"].as_str().expect("a path");
        good(&folder, &["zone", "sign", "example.com", "plain", "-k", file, "-o", "signed"]);
    }
    for (kind, words) in [
        (&["-algorithm", "ED448"][..], "nomen cannot sign with algorithm 16 (ED448)"),
        (
            &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"],
            "the RSA key has 1024 bits, which is too weak",
        ),
    ] {
        other(folder.path(), "openssl", &[&["genpkey", "-out", "pem"], kind].concat());
        let (code, _, said) = nomen(&folder, &["key", "import", "example.com", "pem", "--role", "ksk"]);
        assert!(code == Some(1) && said.contains(words), "{said}");
    }
}

#[test]
fn keys_are_listed_with_their_state_and_faults() {
    let folder = folder();
    generate(&folder, "ed25519", "csk");
    let soon = ["--activate", "30d", "--publish", "1d", "--inactive", "60d", "--delete", "90d"];
    let words =
        ["key", "generate", "example.com", "-K", "keys", "--role", "zsk", "-a", "rsasha256", "--ttl", "1h"];
    good(&folder, &[&words[..], &soon].concat());
    let (listed, _) = good(&folder, &["key", "list", "keys"]);
    let mut lines: Vec<&str> = listed.lines().map(|line| line.split_once(' ').expect("a zone").1).collect();
    lines.iter_mut().for_each(|line| *line = line.split_once(' ').expect("a tag").1);
    lines.sort_unstable();
    assert_eq!(lines, ["ED25519 256 bits ksk active", "RSASHA256 2048 bits zsk future"]);
    let (printed, _) = good(&folder, &["key", "list", "keys", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let later = all.as_array().expect("a list").iter().find(|key| key["role"] == "zsk").expect("a key");
    assert_eq!((&later["flags"], &later["bits"]), (&256.into(), &2048.into()));
    assert!(later["times"]["inactive"].as_str() > later["times"]["activate"].as_str(), "{later}");
    let (code, _, said) =
        nomen(&folder, &["key", "generate", "example.com", "--inactive", "1d", "--activate", "2d"]);
    assert!(code == Some(2) && said.contains("--inactive is before --activate"), "{said}");
    // A private key without its public part is no key, and the others are listed all the same.
    fs::write(folder.path().join("keys/Kexample.org.+015+00001.private"), "").expect("written");
    let (code, printed, said) = nomen(&folder, &["key", "list", "keys"]);
    assert_eq!((code, printed), (Some(3), listed), "{said}");
    assert!(said.contains("Kexample.org.+015+00001.key: there is no such file"), "{said}");
}

/// The key of PowerDNS in the form of `pdnsutil export-zone-key`, and the keys of Knot's key store.
#[test]
fn keys_of_powerdns_and_knot_have_the_same_ds_here() {
    if !testkit::has_programs(&["pdnsutil", "keymgr"]) {
        return;
    }
    let folder = folder();
    let path = folder.path();
    let imported = |file: &str| {
        let words = ["key", "import", "example.com", file, "--role", "csk", "-K", "keys"];
        let key = good(&folder, &words).0;
        let ds = good(&folder, &["key", "export-ds", key.trim_end()]).0.to_lowercase();
        ds.trim_end().rsplit_once(" ds ").expect("a DS").1.to_owned()
    };
    let at = path.display();
    let conf = format!("launch=bind\nbind-config={at}/named.conf\nbind-dnssec-db={at}/keys.db\n");
    fs::write(path.join("pdns.conf"), conf).expect("written");
    let named = format!("zone \"example.com\" {{ type master; file \"{at}/plain\"; }};\n");
    fs::write(path.join("named.conf"), named).expect("written");
    let pdnsutil = |words: &[&str]| other(path, "pdnsutil", &[&["--config-dir=."], words].concat());
    pdnsutil(&["create-bind-db", "keys.db"]);
    pdnsutil(&["secure-zone", "example.com"]);
    let exported = pdnsutil(&["export-zone-key", "example.com", "1"]);
    let begin = exported.find("Private-key-format").expect("a key");
    fs::write(path.join("exported"), &exported[begin..]).expect("written");
    let ds = imported("exported");
    let shown = pdnsutil(&["show-zone", "example.com"]);
    assert!(shown.contains(&ds), "{ds}: {shown}");

    fs::create_dir(path.join("knot")).expect("made");
    let conf = format!("server:\n  rundir: \"{at}\"\ndatabase:\n  storage: \"{at}/knot\"\n");
    fs::write(path.join("knot.conf"), conf).expect("written");
    let keymgr = |words: &[&str]| {
        let program = if Path::new("/usr/sbin/keymgr").exists() { "/usr/sbin/keymgr" } else { "keymgr" };
        other(path, program, &[&["-c", "knot.conf", "example.com"], words].concat())
    };
    for algorithm in ["algorithm=8", "algorithm=13", "algorithm=14", "algorithm=15"] {
        let made = keymgr(&["generate", algorithm, "ksk=yes", "zsk=yes"]);
        let is_id = |line: &&str| line.len() == 40 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = made.lines().find(is_id).unwrap_or_else(|| panic!("no key: {made}"));
        let ds = imported(&format!("knot/keys/keys/{id}.pem"));
        let shown = keymgr(&["ds"]);
        assert!(shown.contains(&ds), "{ds}: {shown}");
    }
}

/// A root zone signed here, served, and validated from its DS on: data, a wildcard, and both kinds of denial.
#[test]
fn our_own_validator_finds_served_zones_secure() {
    for way in [&[][..], &["--nsec3"]] {
        let address = free_address();
        let folder = tempfile::tempdir().expect("a folder");
        let zone = format!(
            "$TTL 3600\n. SOA a.root. admin. 1 7200 3600 1209600 300\n. NS a.root.\na.root. A {}\n\
             www.example. A 192.0.2.80\n*.wild.example. TXT \"x\"\n",
            address.ip()
        );
        fs::write(folder.path().join("plain"), zone).expect("written");
        let key = good(&folder, &["key", "generate", "."]).0;
        let words = ["zone", "sign", ".", "plain", "-k", key.trim_end(), "-o", "signed"];
        good(&folder, &[&words, way].concat());
        let (anchor, _) = good(&folder, &["key", "export-ds", key.trim_end()]);
        fs::write(folder.path().join("anchor"), anchor).expect("written");
        let section = "[[zone]]\nname = \".\"\nfile = \"signed\"\n";
        let server = Server::start_at(address, folder, "", section);
        let port = address.port().to_string();
        for question in
            [["www.example", "A"], ["nx.example", "A"], ["a.wild.example", "TXT"], ["www.example", "MX"]]
        {
            let chase = ["-p", &port, "--chase", "--anchor-file", "anchor"];
            let printed = server.query(&[&question[..], &chase].concat());
            assert!(printed.contains("\n;; SECURITY: secure\n"), "{way:?} {question:?}: {printed}");
        }
    }
}
