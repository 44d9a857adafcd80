//! Tests of keys, messages and configurations of Oblivious DoH.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Returns the bytes of hexadecimal digits.
pub(super) fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// The seed of the vectors that odoh-go and odoh-rs, by the authors of RFC 9230, have in common.
const SEED_TEXT: &str = "c9d84d04e6369fccb8a4d5a264001491221f1b97d9b80dd32c35834bb4462383";
const CONFIGS: &str =
    "002c000100280020000100010020c6a793bedbd601c25970b1cc46bea80fdb1a8ec51540d79e4f9f17b8baa9da33";

fn seed(first: u8) -> ObliviousSeed {
    ObliviousSeed::new(std::array::from_fn(|at| first + at as u8)).expect("random enough")
}

fn keys_of(seeds: &[&ObliviousSeed]) -> ObliviousKeys {
    ObliviousKeys::new(seeds.iter().copied(), Duration::from_secs(60))
}

fn published(keys: &ObliviousKeys) -> ObliviousConfig {
    ObliviousConfig::first(keys.configs()).expect("a configuration")
}

#[test]
fn vectors_of_other_implementations_are_met() {
    let keys = keys_of(&[&ObliviousSeed::new(bytes(SEED_TEXT).try_into().expect("32")).expect("a seed")]);
    assert_eq!(keys.configs(), bytes(CONFIGS));
    assert_eq!(
        published(&keys).id.to_vec(),
        bytes("9265d14d640ff991b31892f36326ab601ea84d61964fc7a9c7f981a5313e58b9")
    );
    for (query, padding, sealed_query, sealed_response) in [
        (
            "9db1072b0ab473d1e4b74b09637d5f8f253ad4047426ab4dfcc58350bb67b60c",
            0,
            "0100209265d14d640ff991b31892f36326ab601ea84d61964fc7a9c7f981a5313e58b90054655d2fa2b2271e40b5a78745\
             e41e6d6c5c181fd1fcffcc30fc451d5ec7fdcc5a6ae0da1cba2bd379da93d02d0e42a3849ec6ba53a54c7c8216f0d3cc2cef\
             30ac54f824f5d8b57657d8c7b95e2c0276580b3851d9",
            "0200100f474d14998a841b15f84388a8af1881005413556bcd8d86194fb47a51982b715b7f253f4f3ea14d89a5dd9d2b67\
             e6c13b0b7eb7ae740c09d915ef77461956ba8acac5c5f1d8965ca0888b1c0aa2a0084b4c2c375b74e1c3d4e51ad3fe8080b7\
             941fd5719df5",
        ),
        (
            "6537c42600c6a3c6db735f8fb9e8e3618acf7508bb315a8862360c4b18dc83b8",
            64,
            "0100209265d14d640ff991b31892f36326ab601ea84d61964fc7a9c7f981a5313e58b90074e743c3dcfadd8b146103a69f\
             59544d25eeb7de64772910b4413c94c5716ae94743655e725a6d5e00e29e05fa812108b03d9913450b08b0ab04a7eeec65e1\
             3ab52adcfac71b1ea280cbfd9c5865022835addc74f6f71d5c28358b121fae3150470324d4f4ecd0e49b729b74e525bed627\
             e2668aa0",
            "0200104463598990890a8bf9051685d6694597009499a1d75c78516db57ef3ffcfddc137ac801acf4a8632a1238ca4b21f\
             acded26bc60fe132a1d44725f42fff07b11a10d00760592200c8aebd441a16b4902506c529a11e40af23634645e9d1be6432\
             74a5ab65cf4fff9346f9a47cc752b885d242b65ebf62b6ace2ae6d8544cbe64310fcfdb85ad0272b142d6a39de262577bdd6\
             c7b573ccb6e9f194c91e1034b40b57e10700a130",
        ),
    ] {
        let opened = keys.open(&bytes(sealed_query)).expect("opened");
        assert_eq!(opened.message, bytes(query));
        let (sealed, response) = (bytes(sealed_response), bytes(query).repeat(2));
        let length = (response.len() as u16).to_be_bytes();
        let plain = [&length[..], &response, &[0, padding], &vec![0; usize::from(padding)]].concat();
        let secret = ResponseSecret { plain: opened.sealer.0.plain.clone(), ..opened.sealer.0 };
        let nonce = sealed[3..19].try_into().expect("16 bytes");
        assert_eq!(opened.sealer.seal_padded(plain, &nonce).expect("sealed"), sealed);
        assert_eq!(ResponseOpener(secret).open(&sealed).expect("opened"), response);
    }
}

#[test]
fn queries_and_responses_pass_and_hide_their_lengths() {
    let keys = keys_of(&[&seed(1)]);
    let config = published(&keys);
    let mut lengths = Vec::new();
    for len in [12, 100, 128, 129, 65_000] {
        let (sealed, opener) = config.seal(&vec![7; len]).expect("sealed");
        let opened = keys.open(&sealed).expect("opened");
        assert_eq!(opened.message, vec![7; len]);
        let response = opened.sealer.seal(&vec![8; len]).expect("sealed");
        lengths.push((sealed.len(), response.len()));
        assert_eq!(opener.open(&response).expect("opened"), vec![8; len]);
    }
    assert!(lengths[0] == lengths[1] && lengths[1] == lengths[2], "{lengths:?}");
    assert_eq!((lengths[3].0 - lengths[0].0, lengths[3].1), (128, lengths[0].1));
    let longest = MAX_ENCRYPTED - TAG - 4;
    let sealer = || keys.open(&config.seal(&[7; 12]).expect("sealed").0).expect("opened").sealer;
    assert!(sealer().seal(&vec![1; longest]).is_ok());
    assert_eq!(sealer().seal(&vec![1; longest + 1]), Err(ObliviousFault::TooLong));
    assert!(config.seal(&vec![1; longest - ENCAPSULATED]).is_ok());
    assert_eq!(config.seal(&vec![1; longest - ENCAPSULATED + 1]).err(), Some(ObliviousFault::TooLong));
}

#[test]
fn every_changed_byte_is_noticed() {
    let keys = keys_of(&[&seed(1)]);
    let (sealed, opener) = published(&keys).seal(&[7; 20]).expect("sealed");
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        let expected = match at {
            3..35 => ObliviousFault::UnknownKey,
            _ => ObliviousFault::Malformed,
        };
        assert_eq!(keys.open(&changed).err(), Some(expected), "byte {at}");
        assert_eq!(keys.open(&sealed[..at]).err(), Some(ObliviousFault::Malformed), "{at} bytes");
    }
    assert!(keys.open(&[&sealed[..], &[0]].concat()).is_err());
    let response = keys.open(&sealed).expect("opened").sealer.seal(&[8; 20]).expect("sealed");
    assert_eq!(keys.open(&response).err(), Some(ObliviousFault::Malformed), "a response is no query");
    let ResponseOpener(ResponseSecret { secret, plain }) = opener;
    let opener = |plain: &[u8]| ResponseOpener(ResponseSecret { secret, plain: plain.to_vec() });
    for at in 0..response.len() {
        let mut changed = response.clone();
        changed[at] ^= 1;
        assert_eq!(opener(&plain).open(&changed), Err(ObliviousFault::Malformed), "byte {at}");
    }
    assert!(opener(&plain).open(&response).is_ok());
    assert!(opener(&plain[1..]).open(&response).is_err(), "it is bound to its query");
}

#[test]
fn the_first_key_is_published_and_all_decrypt() {
    let (old, new) = (keys_of(&[&seed(1)]), keys_of(&[&seed(2), &seed(1)]));
    let (to_old, _) = published(&old).seal(&[7; 20]).expect("sealed");
    let (to_new, _) = published(&new).seal(&[7; 20]).expect("sealed");
    assert!(new.open(&to_old).is_ok() && new.open(&to_new).is_ok());
    assert_eq!(old.open(&to_new).err(), Some(ObliviousFault::UnknownKey));
    assert_eq!(keys_of(&[]).open(&to_new).err(), Some(ObliviousFault::UnknownKey));
}

#[test]
fn what_was_encrypted_has_a_message_and_zeros() {
    for (plain, expected) in [
        (&[0, 2, 7, 7, 0, 0][..], Ok(&[7, 7][..])),
        (&[0, 1, 7, 0, 2, 0, 0], Ok(&[7])),
        (&[0, 1, 7, 0, 2, 0, 1], Err(BadFormat)),
        (&[0, 1, 7, 0, 2, 0], Err(BadFormat)),
        (&[0, 1, 7, 0, 0, 0], Err(BadFormat)),
        (&[0, 0, 0, 0], Err(BadFormat)),
        (&[0, 1, 7], Err(BadFormat)),
        (&[], Err(BadFormat)),
    ] {
        assert_eq!(message::dns_message(plain), expected, "{plain:?}");
    }
    assert_eq!(Message::read(&[1, 0, 0, 0, 0]), Err(BadFormat), "nothing is encrypted");
    assert_eq!(Message::read(&[3, 0, 0, 0, 1, 9]), Err(BadFormat), "another direction");
}

#[test]
fn clients_take_the_first_configuration_that_they_support() {
    let keys = keys_of(&[&seed(1)]);
    let one = &keys.configs()[2..];
    let all = |configs: &[&[u8]]| {
        let configs = configs.concat();
        [&(configs.len() as u16).to_be_bytes()[..], &configs].concat()
    };
    let other_version: &[u8] = &[0xff, 1, 0, 2, 9, 9];
    let mut other_suite = one.to_vec();
    other_suite[5] = 0x10;
    let expected = published(&keys);
    let second = keys_of(&[&seed(2)]);
    for configs in [&[one][..], &[other_version, one], &[&other_suite, one, &second.configs()[2..]]] {
        assert_eq!(ObliviousConfig::first(&all(configs)).as_ref(), Ok(&expected));
    }
    assert_eq!(
        ObliviousConfig::first(&all(&[other_version, &other_suite])),
        Err(ObliviousConfigsFault::Unsupported)
    );
    let whole = all(&[one]);
    let longer = [&whole[..], &[0]].concat();
    for bad in [&whole[..whole.len() - 1], &longer, &[0, 0], &[], &[0, 3, 0, 1, 0]] {
        assert_eq!(ObliviousConfig::first(bad), Err(ObliviousConfigsFault::Malformed), "{bad:?}");
    }
}

#[test]
fn files_have_whole_seeds() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("odoh.key");
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        ObliviousSeeds::read(&path).map_err(|fault| fault.to_string())
    };
    let two = [*seed(1).secret_bytes(), *seed(2).secret_bytes()].concat();
    assert_eq!(read(&two).expect("two").seeds, [seed(1), seed(2)]);
    for (bad, words) in [
        (&[][..], "has 0 bytes"),
        (&two[..33], "has 33 bytes; each key of Oblivious DoH has 32"),
        (&two.repeat(9), "has 576 bytes"),
        (&[9; 32], "not random"),
    ] {
        let fault = read(bad).expect_err("bad");
        assert!(fault.contains(words), "{fault}");
    }
    for (mode, expected) in [(0o600, false), (0o644, true)] {
        std::fs::write(&path, &two).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("changed");
        assert_eq!(ObliviousSeeds::read(&path).expect("seeds").is_public, expected);
    }
    let fault = ObliviousSeeds::read(Path::new("/nonexistent/key")).expect_err("no file");
    assert_eq!(fault.to_string(), "cannot read /nonexistent/key: there is no such file");
}
