//! What the thread `database` runs for tables of PowerDNS: connects, follows, and connects again.

use std::sync::Arc;

use tokio::time::sleep;

use super::follow::PowerDnsFollower;
use crate::connect::{LinkUse, connect_any};
use crate::shared::Shared;
use crate::worker::{LONGEST_BACK_OFF, SHORTEST_BACK_OFF, STOPPING, connected, note_fault};

/// Runs until it is stopped.
pub(crate) async fn work(shared: &Arc<Shared>) {
    let mut follower = PowerDnsFollower::new(shared);
    let (mut back_off, mut fault) = (SHORTEST_BACK_OFF, String::new());
    let mut stop = shared.stop.subscribe();
    while !*stop.borrow() {
        let why = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            why = session(shared, &mut follower, &mut back_off, &mut fault) => why,
        };
        shared.queue.close(&why);
        note_fault(shared, &why, &mut fault);
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            () = sleep(back_off) => {}
        }
        back_off = (back_off * 2).min(LONGEST_BACK_OFF);
    }
    shared.queue.close(STOPPING);
}

/// Connects and follows until the connection breaks; returns why.
async fn session(
    shared: &Arc<Shared>,
    follower: &mut PowerDnsFollower,
    back_off: &mut std::time::Duration,
    fault: &mut String,
) -> String {
    let (link, place) = match connect_any(&shared.settings, LinkUse::PowerDns, None).await {
        Ok(opened) => opened,
        Err(why) => return why,
    };
    if let Err(why) = follower.check(&link.client).await {
        return format!("{place}: {why}");
    }
    connected(shared, &link, &place);
    fault.clear();
    follower.follow(&link.client, || *back_off = SHORTEST_BACK_OFF).await
}
