//! Keys of every algorithm: generated, written, read and compared; faults of files with their lines.

use super::pair::{MIN_RSA_BITS, PrivateKey};
use super::text::{KeyTextFault, KeyTextFaultKind, PrivateText, PublicText};
use super::*;

/// A P-256 key of BIND 9.18's dnssec-keygen, with the times of version 1.3.
const PRIVATE: &str = "Private-key-format: v1.3
Algorithm: 13 (ECDSAP256SHA256)
PrivateKey: yH2D63CCNH/gM2eEXxXCwUDpIaRekULdS/f0TMJyOy8=
Created: 20261128122937
Publish: 20261128122937
Activate: 20261128122938
";
const PUBLIC: &str = "; This is a zone-signing key, keyid 16105, for example.com.
example.com. IN DNSKEY 256 3 13 ABUCni8JE6aeHVtEKhbHR09IXKVWr+u1YHFH+rCmn92CHfiO89MIR54U \
 qeLMqTEo/2OU4VyKFcfDp0eSxXaPng==
";

const ALGORITHMS: [SigAlgorithm; 5] = [
    SigAlgorithm::RSASHA256,
    SigAlgorithm::RSASHA512,
    SigAlgorithm::ECDSAP256SHA256,
    SigAlgorithm::ECDSAP384SHA384,
    SigAlgorithm::ED25519,
];

fn zone() -> NameBuf {
    "Example.COM.".parse().expect("a name")
}

fn joined(public: &str, private: &str) -> Result<ZoneKey, BadKey> {
    let private = PrivateText::parse(private).expect("a private key");
    ZoneKey::join(PublicText::parse(public).expect("a public key"), private.key, private.times)
}

#[test]
fn files_of_every_algorithm_come_back_and_sign_alike() {
    for algorithm in ALGORITHMS {
        for role in [KeyRole::KeySigning, KeyRole::ZoneSigning] {
            let private = PrivateKey::generate(algorithm, MIN_RSA_BITS).expect("a key");
            let mut times = KeyTimes::default();
            times.set(KeyEvent::Activate, UnixTime::from_secs(1_700_000_000));
            let key = ZoneKey::new(zone().as_name(), role, private, times);
            let read = joined(&key.public_text(), &key.private_text().expect("text")).expect("a key");
            assert_eq!((read.dnskey(), read.tag(), read.role()), (key.dnskey(), key.tag(), role));
            assert_eq!(read.times(), key.times());
            assert_eq!(read.zone().to_string(), "example.com.");
            for signer in [&key, &read] {
                let signature = signer.sign(b"data").expect("signed");
                let dnskey = Dnskey::read(key.dnskey()).expect("a DNSKEY");
                assert!(dnssec::algorithm::verify(&dnskey, b"data", &signature), "{algorithm}");
                assert!(!dnssec::algorithm::verify(&dnskey, b"datum", &signature), "{algorithm}");
            }
        }
    }
}

#[test]
fn a_key_of_bind_has_its_tag_names_and_times() {
    let key = joined(PUBLIC, PRIVATE).expect("a key");
    assert_eq!((key.tag(), key.role(), key.bits()), (16105, KeyRole::ZoneSigning, 256));
    assert_eq!(key.file_stem(), "Kexample.com.+013+16105");
    assert_eq!(key.times().get(KeyEvent::Activate), Some(UnixTime::from_secs(1_795_868_978)));
    assert_eq!(&*key.private_text().expect("text"), PRIVATE);
}

#[test]
fn a_revoked_key_has_another_tag() {
    let mut key = joined(PUBLIC, PRIVATE).expect("a key");
    let before = key.tag();
    let [plain, revoked] = key.tags();
    key.times.set(KeyEvent::Revoke, UnixTime::from_secs(100));
    let key = key.as_of(UnixTime::from_secs(99));
    assert_eq!((key.tag(), key.is_revoked()), (before, false));
    let key = key.as_of(UnixTime::from_secs(100));
    assert_eq!((plain, revoked), (before, key.tag()));
    // The sum of RFC 4034 appendix B grows by the bit.
    assert_eq!((key.tag(), key.is_revoked()), (before + 128, true));
    let dnskey = Dnskey::read(key.dnskey()).expect("a DNSKEY");
    assert_eq!(dnssec::key::tag(&dnskey), key.tag());
}

#[test]
fn names_of_files_are_those_of_bind() {
    let stem = |name: &str| {
        let zone: NameBuf = name.parse().expect("a name");
        file_name(zone.as_name())
    };
    assert_eq!(stem("exa\\.mple/x.COM."), "exa%2Emple%2Fx.com.");
    assert_eq!(stem("."), ".");
    assert_eq!(stem("_a-b.\\000."), "_a-b.%00.");
}

fn private_fault(text: &str) -> (usize, KeyTextFaultKind) {
    let KeyTextFault { line, kind } = PrivateText::parse(text).expect_err("a fault");
    (line, kind)
}

#[test]
fn faults_of_private_files_have_their_lines() {
    use KeyTextFaultKind::*;
    let with = |from: &str, to: &str| private_fault(&PRIVATE.replace(from, to));
    assert_eq!(private_fault(""), (1, Format));
    assert_eq!(with("v1.3", "v2.0"), (1, Format));
    assert_eq!(with("v1.3", "v1.1"), (1, Format));
    assert_eq!(with("Algorithm: 13", "Algorithm: x"), (2, BadAlgorithm));
    assert_eq!(with("Algorithm: 13", "Algorithm: 16"), (2, Key(BadKey::Algorithm(SigAlgorithm(16)))));
    assert_eq!(with("Algorithm: 13", "Algorithm: 5"), (2, Key(BadKey::Algorithm(SigAlgorithm::RSASHA1))));
    assert_eq!(with("Algorithm", "Algorism"), (2, Missing("Algorithm")));
    assert_eq!(with("PrivateKey: y", "PrivateKey: y!"), (3, BadNumber("PrivateKey")));
    assert_eq!(with("PrivateKey", "Modulus"), (3, UnknownField("Modulus".into())));
    assert_eq!(with("Publish: 2026", "Publish: 1969"), (5, BadTime("Publish")));
    assert_eq!(with("Publish: 20", "Publish: "), (5, BadTime("Publish")));
    assert_eq!(with("Publish", "Created"), (5, Repeated("Created")));
    assert_eq!(with("Publish:", "Publish"), (5, NoField));
    assert_eq!(with("Publish", "Engine"), (5, Hardware));
    let number = "PrivateKey: yH2D63CCNH/gM2eEXxXCwUDpIaRekULdS/f0TMJyOy8=\n";
    assert_eq!(with(number, ""), (5, Missing("PrivateKey")));
    assert_eq!(with(number, &number.repeat(2)), (4, Repeated("PrivateKey")));
    // No key of the curve: the number is greater than its order.
    let large = format!("PrivateKey: {}8=\n", "/".repeat(42));
    assert_eq!(with(number, &large), (6, Key(BadKey::Numbers)));
    assert_eq!(with("Algorithm: 13", "Algorithm: 8"), (3, UnknownField("PrivateKey".into())));
    // Later versions may have more fields.
    let later = PRIVATE.replace("v1.3", "v1.4") + "Colour: blue\n";
    assert!(PrivateText::parse(&later).is_ok());
    assert_eq!(private_fault(&(PRIVATE.to_owned() + "Colour: blue\n")), (7, UnknownField("Colour".into())));
}

#[test]
fn weak_rsa_keys_are_named_with_their_size() {
    let key = PrivateKey::generate(SigAlgorithm::RSASHA256, 2048).expect("a key");
    let text = text::private_text(&key, &KeyTimes::default()).expect("text").to_string();
    let modulus = text.lines().find(|line| line.starts_with("Modulus")).expect("a modulus").to_owned();
    let weak = text.replace(&modulus, &format!("Modulus: {}", "qqqq".repeat(42)));
    assert_eq!(private_fault(&weak).1, KeyTextFaultKind::Key(BadKey::RsaBits(1008)));
    assert_eq!(PrivateKey::generate(SigAlgorithm::RSASHA256, 1024).expect_err("weak"), BadKey::RsaBits(1024));
    assert_eq!(
        PrivateKey::generate(SigAlgorithm(16), 0).expect_err("not there"),
        BadKey::Algorithm(SigAlgorithm(16))
    );
}

#[test]
fn faults_of_public_files_have_their_lines() {
    let fault = |from: &str, to: &str| {
        let KeyTextFault { line, kind } = PublicText::parse(&PUBLIC.replace(from, to)).expect_err("a fault");
        (line, kind)
    };
    let bad = |what| (2, KeyTextFaultKind::BadRecord(what));
    assert_eq!(fault("256 3", "65536 3"), bad("the flags are not a number below 65536"));
    assert_eq!(fault("256 3", "256 2"), bad("the protocol is not 3"));
    assert_eq!(fault(" 13 ", " 256 "), bad("the algorithm is not a number below 256"));
    assert_eq!(fault("ABUC", "A!UC"), bad("the key is not base64"));
    assert_eq!(fault("DNSKEY", "DS"), bad("expected a TTL, the class IN or the type DNSKEY"));
    assert_eq!(fault("example.com. IN", "example..com. IN"), bad("the owner is no name"));
    assert_eq!(fault("example.com. IN", ";"), (1, KeyTextFaultKind::NoRecord));
    let twice = PublicText::parse(&PUBLIC.repeat(2)).expect_err("a fault");
    assert_eq!(twice, KeyTextFault { line: 4, kind: KeyTextFaultKind::NoRecord });
    let with_ttl = PublicText::parse(&PUBLIC.replace(" IN ", " 1h IN ")).expect("a key");
    assert_eq!(with_ttl.ttl, Some(Ttl::from_secs(3600)));
}

#[test]
fn files_of_different_keys_do_not_belong_together() {
    assert_eq!(
        joined(&PUBLIC.replace("ABUC", "ABUD"), PRIVATE).expect_err("a fault"),
        BadKey::OtherPublicKey
    );
    assert_eq!(
        joined(&PUBLIC.replace(" 13 ", " 15 "), PRIVATE).expect_err("a fault"),
        BadKey::OtherAlgorithm
    );
}

/// Made by `openssl genpkey`.
const PEM: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIEec6xxIpWsr6DqhKfB0as/1d/JZ/c547F+CnBgr87Br
-----END PRIVATE KEY-----
";

#[test]
fn pem_is_read_with_its_faults() {
    use pem::{PemFault, parse};
    let rsa = SigAlgorithm::RSASHA256;
    let key = parse(PEM, rsa).expect("a key");
    assert_eq!(key.algorithm(), SigAlgorithm::ED25519);
    let fault = |text: &str| parse(text, rsa).expect_err("a fault");
    assert_eq!(fault("nothing"), PemFault::NoBegin);
    assert_eq!(fault(&PEM.replace("BEGIN PRIVATE", "BEGIN RSA PRIVATE")), PemFault::OtherForm(1));
    assert_eq!(fault(&PEM.replace("MC4C", "M!4C")), PemFault::BadLine(2));
    assert_eq!(fault(&PEM.replace("-----END", "")), PemFault::BadLine(3));
    assert_eq!(fault(PEM.split_once("-----END").expect("an end").0), PemFault::NoEnd);
    assert_eq!(fault(&PEM.replace("MC4C", "MC4D")), PemFault::Key(BadKey::Document));
}
