//! Years of a zone whose KSK is offline: operators make ZSKs and have requests signed at their convenience.

use signer::key::pair::PrivateKey;
use signer::key::{KeyRole, ZoneKey};
use signer::rollover::offline::{KeySigningRequest, SlotSigning, sign_request};

use super::*;

const MINUTE: u64 = 60;

fn after(days: u64) -> UnixTime {
    UnixTime::from_secs(START + days * DAY)
}

fn offline_policy() -> DnssecPolicy {
    DnssecPolicy {
        layout: KeyLayout::Split,
        offline_ksk: true,
        zsk_lifetime: Some(Duration::from_secs(20 * DAY)),
        ..policy()
    }
}

/// A KSK with these events.
fn ksk(events: &[(KeyEvent, UnixTime)]) -> ZoneKey {
    let mut times = KeyTimes::default();
    events.iter().for_each(|(event, time)| times.set(*event, *time));
    let private = PrivateKey::generate(SigAlgorithm::ED25519, 0).expect("a key");
    ZoneKey::new(apex().as_name(), KeyRole::KeySigning, private, times)
}

impl World {
    fn commanded(&mut self, command: SignCommand) -> Result<SignReply, String> {
        self.maintain(Some(command)).expect("a reply").map_err(|fault| fault.to_string())
    }

    /// Has ZSKs generated, and the request for these days.
    fn request(&mut self, days: u64) -> KeySigningRequest {
        let until = |days: u64| self.now.saturating_add(Duration::from_secs(days * DAY));
        let (end, later) = (until(days), until(days + 30));
        self.commanded(SignCommand::Pregenerate(later)).expect("keys");
        match self.commanded(SignCommand::Request(None, Some(end))) {
            Ok(SignReply::Request(text)) => {
                KeySigningRequest::parse(&text, apex().as_name()).expect("a request")
            }
            other => panic!("{other:?}"),
        }
    }

    fn response(&self, request: &KeySigningRequest, ksks: &[ZoneKey]) -> String {
        let how = SlotSigning {
            validity: Duration::from_secs(14 * DAY),
            refresh: Duration::from_secs(5 * DAY),
            inception_offset: Duration::from_secs(3600),
            until: request.until.expect("an end"),
            digests: vec![Ds::SHA256],
        };
        let response = sign_request(apex().as_name(), request, ksks, &how).expect("a response");
        response.write(apex().as_name(), self.now)
    }

    /// The operator's work: a response for these days.
    fn ceremony(&mut self, days: u64, ksks: &[ZoneKey]) {
        let request = self.request(days);
        let text = self.response(&request, ksks);
        let said = self.commanded(SignCommand::ImportResponse(text)).expect("accepted");
        assert!(matches!(&said, SignReply::Done(said) if said.contains("is accepted")), "{said:?}");
    }

    fn status(&self) -> SigningStatus {
        self.signer.as_ref().expect("a signer").status(None, self.now)
    }

    fn has_key(&self, key: &ZoneKey) -> bool {
        rdatas_at_apex(&self.zone, Type::DNSKEY).iter().any(|rdata| rdata == key.dnskey())
    }
}

#[test]
fn a_zone_stays_valid_for_more_than_a_year_of_zsks_and_a_new_ksk() {
    let mut world = World::new(offline_policy(), 1);
    world.maintain(None);
    assert!(!is_signed(&world.zone));
    let old =
        [(KeyEvent::Publish, after(0)), (KeyEvent::SyncDelete, after(150)), (KeyEvent::Delete, after(190))];
    let new = [(KeyEvent::Publish, after(110)), (KeyEvent::SyncPublish, after(150))];
    let ksks = [ksk(&old), ksk(&new)];
    while world.now < after(400) {
        world.ceremony(100, &ksks);
        let until = (world.now.as_secs() - START) / DAY + 50 + world.random(50);
        world.run(until, Some(5));
        assert!(is_signed(&world.zone));
    }
    // One ZSK for 20 days.
    assert!(world.used.len() >= 20, "keys {:?}", world.used);
    assert!(!world.has_key(&ksks[0]) && world.has_key(&ksks[1]));
    let ds = Ds::read(&world.ds[0]).map(|ds| ds.key_tag);
    assert_eq!((world.ds.len(), ds), (1, Ok(ksks[1].tag())));
    // No private KSK has ever been there.
    let folder = KeyFolder::of(world.state(), &apex());
    assert!(folder.keys().expect("keys").iter().all(|key| key.role() == KeyRole::ZoneSigning));
}

/// A zone that is added under the name later must not publish the old response, or sign with the old keys.
#[test]
fn a_zone_that_is_removed_leaves_no_response_and_no_public_ksk() {
    let mut world = World::new(offline_policy(), 14);
    world.ceremony(30, &[ksk(&[])]);
    world.run(2, Some(1));
    let folder = KeyFolder::of(world.state(), &apex());
    let files = || std::fs::read_dir(folder.path()).expect("a folder").count();
    // Three of each ZSK, two of the KSK, and the response.
    assert!(files() >= 6 && folder.responses().expect("read").is_some());
    remove_keys(world.state(), &apex()).expect("removed");
    assert_eq!(files(), 0);
}

/// The slot that drops the old KSK is not published while the parent has its DS record.
#[test]
fn a_slot_that_lacks_what_caches_need_is_not_published() {
    let mut world = World::new(offline_policy(), 11);
    let old =
        [(KeyEvent::Publish, after(0)), (KeyEvent::SyncDelete, after(40)), (KeyEvent::Delete, after(60))];
    let new = [(KeyEvent::Publish, after(20)), (KeyEvent::SyncPublish, after(40))];
    let ksks = [ksk(&old), ksk(&new)];
    world.ceremony(100, &ksks);
    world.run(35, Some(2));
    assert!(!world.ds.is_empty());
    // The parent does nothing any more.
    world.run(62, None);
    assert!(world.has_key(&ksks[0]));
    let waits = world.status().waits;
    assert!(waits.iter().any(|wait| wait.contains("lacks a key that caches need")), "{waits:?}");
    // It takes the CDS records at last.
    world.run(63, Some(0));
    assert_eq!(Ds::read(&world.ds[0]).map(|ds| ds.key_tag), Ok(ksks[1].tag()));
    world.run(70, None);
    assert!(!world.has_key(&ksks[0]));
    assert!(world.status().waits.is_empty());
}

#[test]
fn the_last_slot_stays_when_responses_end_and_the_next_one_is_taken() {
    let mut world = World::new(offline_policy(), 12);
    let ksks = [ksk(&[])];
    world.ceremony(30, &ksks);
    world.run(20, Some(1));
    let end = world.status().offline.expect("offline").until.expect("an end");
    assert!(end > after(35) && end < after(45), "{end:?}");
    world.run((end.as_secs() - START) / DAY, Some(1));
    assert!(is_signed(&world.zone) && world.has_key(&ksks[0]));
    // Later than the end, the zone keeps what it has, and says why.
    world.now = end.saturating_add(Duration::from_secs(MINUTE));
    let before = rdatas_at_apex(&world.zone, Type::DNSKEY);
    let order = SignOrder::of(Arc::clone(&world.updates));
    let mut signer = world.signer();
    let after_end = signer.maintain(&world.zone, &order, Serial(99), world.now).expect("a look");
    if let Maintenance::Step(step) = after_end {
        assert_eq!(rdatas_at_apex(&step.zone, Type::DNSKEY), before);
    }
    world.signer = Some(signer);
    let waits = world.status().waits;
    assert!(waits.iter().any(|wait| wait.contains("the last signed key response has ended")), "{waits:?}");
}

#[test]
fn a_response_with_another_ksk_or_too_late_is_refused_and_commands_say_why() {
    let mut world = World::new(offline_policy(), 13);
    let ksks = [ksk(&[])];
    let none = world.commanded(SignCommand::Request(None, None)).expect_err("no keys");
    assert!(none.contains("the zone has no ZSK"), "{none}");
    world.ceremony(60, &ksks);
    world.run(20, Some(1));
    assert!(!world.ds.is_empty());
    let request = world.request(60);
    let other = world.response(&request, &[ksk(&[])]);
    let fault = world.commanded(SignCommand::ImportResponse(other)).expect_err("refused");
    assert!(fault.starts_with("the response is refused: line 1: the slot is not signed by"), "{fault}");
    let roll = world.commanded(SignCommand::Roll(RollTarget::Role(KeyPurpose::Zsk))).expect_err("refused");
    assert!(roll.contains("`offline-ksk`"), "{roll}");
    // A part that begins after the signatures in service expire.
    let mut late = request.clone();
    late.slots
        .iter_mut()
        .for_each(|slot| slot.inception = slot.inception.saturating_add(Duration::from_secs(55 * DAY)));
    late.until = late.until.map(|until| until.saturating_add(Duration::from_secs(55 * DAY)));
    let late = world.response(&late, &ksks);
    let fault = world.commanded(SignCommand::ImportResponse(late)).expect_err("refused");
    assert!(fault.contains("the response begins at"), "{fault}");
    // As the operator has meant it.
    let good = world.response(&request, &ksks);
    world.commanded(SignCommand::ImportResponse(good)).expect("accepted");
    let Ok(SignReply::Timeline(events)) = world.commanded(SignCommand::Timeline) else { panic!("no events") };
    let ends = events.iter().filter(|event| event.event == RolloverEvent::ResponseEnds).count();
    assert_eq!(ends, 1);
    world.run(60, Some(1));
}

/// The KSK was online; its private part is moved away, and the zone goes on with responses.
#[test]
fn a_ksk_is_taken_offline_without_a_gap_and_a_zone_becomes_unsigned_with_responses() {
    let online = DnssecPolicy { offline_ksk: false, ..offline_policy() };
    let mut world = World::new(online, 14);
    world.run(30, Some(1));
    assert!(!world.ds.is_empty());
    world.rules = Arc::new(ZoneSigning {
        policy: Arc::new(offline_policy()),
        parental_servers: Vec::new(),
        ds_push: zone_plan::DsPush::Off,
    });
    // The set in service stays until there is a response.
    world.maintain(None);
    let folder = KeyFolder::of(world.state(), &apex());
    let stem = |key: &ZoneKey| folder.path().join(key.file_stem() + ".private");
    let ksks: Vec<ZoneKey> = folder.keys().expect("keys");
    let ksks: Vec<ZoneKey> = ksks.into_iter().filter(|key| key.role() == KeyRole::KeySigning).collect();
    world.ceremony(100, &ksks);
    ksks.iter().for_each(|key| std::fs::remove_file(stem(key)).expect("removed"));
    world.signer = None;
    world.run(90, Some(1));
    assert!(is_signed(&world.zone) && ksks.iter().all(|key| world.has_key(key)));
    world.rules = Arc::new(ZoneSigning {
        policy: Arc::new(DnssecPolicy { goal: SigningGoal::Insecure, ..policy() }),
        parental_servers: Vec::new(),
        ds_push: zone_plan::DsPush::Off,
    });
    world.ds.clear();
    world.run(98, None);
    assert!(!is_signed(&world.zone));
}
