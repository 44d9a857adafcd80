//! Transfers from peers that send anything.
//!
//! RFC 5936 §2.2: "The first message ... MUST begin with the SOA resource record of the zone, and the last
//! message MUST conclude with the same SOA resource record." So a received zone has such a beginning and end;
//! sent and received again, it is unchanged. RFC 5936 §3: all of its records belong to the zone.

use std::sync::Arc;

use transfer::incoming::{AskedFor, IncomingTransfer, Received, SentRequest, TransferLimits};
use transfer::outgoing::{TransferFrame, axfr};
use transport::Next;
use wire::message::{Header, MAX_MESSAGE};
use wire::{Name, Serial, UnixTime};
use zone::Zone;

use crate::zones::records;

const APEX: &[u8] = b"\x07example\0";
const ID: u16 = 0x4242;

fn transfer(asked: AskedFor) -> IncomingTransfer {
    let apex = Name::from_wire(APEX).expect("a name").to_buf();
    let request = SentRequest { id: ID, apex, asked, datagram: false };
    let limits = TransferLimits { records: 10_000, ..TransferLimits::default() };
    IncomingTransfer::new(request, &testkit::key(), limits, None)
}

/// Sends a zone and receives it again.
fn sent_on(zone: Arc<Zone>) -> Zone {
    let request = [Header::query(ID).as_bytes().as_slice(), APEX, &[0, 252, 0, 1]].concat();
    let frame = TransferFrame::answering(&request, 512).expect("a request");
    let (mut stream, mut out) = (axfr(zone, frame), vec![0; MAX_MESSAGE]);
    let mut transfer = transfer(AskedFor::Axfr);
    while let Next::Message(len) = stream.next(&mut out) {
        if let Some(Received::Zone(zone)) =
            transfer.message(&out[..len], UnixTime::EPOCH).expect("our own message")
        {
            assert_eq!(stream.next(&mut out), Next::End);
            return zone.build().expect("a zone");
        }
    }
    panic!("no end");
}

pub(crate) fn run(data: &[u8]) {
    let Some((&kind, mut rest)) = data.split_first() else { return };
    let asked = if kind & 1 == 0 { AskedFor::Axfr } else { AskedFor::Ixfr(Serial(1)) };
    let mut transfer = transfer(asked);
    while let Some((len, behind)) = rest.split_first_chunk::<2>() {
        let len = (u16::from_be_bytes(*len) as usize).min(behind.len());
        let (message, later) = behind.split_at(len);
        rest = later;
        let Ok(received) = transfer.message(message, UnixTime::EPOCH) else { return };
        match received {
            None => {}
            Some(Received::Zone(zone)) => {
                let Ok(zone) = zone.build() else { return };
                let zone = Arc::new(zone);
                let apex = zone.apex();
                assert!(zone.iter().all(|node| node.owner().is_at_or_below(apex)));
                assert_eq!(records(&sent_on(zone.clone())), records(&zone));
                return;
            }
            Some(Received::SoaOnly(_)) => {
                assert!(asked != AskedFor::Axfr);
                return;
            }
            Some(Received::Differences(differences)) => {
                assert_eq!(differences.first().map(|d| d.before), Some(Serial(1)));
                assert!(differences.windows(2).all(|pair| pair[0].after == pair[1].before));
                return;
            }
        }
    }
}
