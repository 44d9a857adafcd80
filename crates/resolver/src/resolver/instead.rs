//! Rules that forward first: names without an answer from their servers are resolved by iteration.

use std::time::Instant;

use transport::Action;

use super::Resolver;
use super::state::{LookupId, Timer};
use crate::outcome::LookupFailure;
use crate::random::Random;
use crate::request::LookupSink;
use crate::rules::Way;
use crate::trace::TraceEvent;

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Restarts a failed lookup by iteration, if its rule has that. Returns whether it does.
    pub(super) fn goes_instead(
        &mut self,
        id: LookupId,
        failure: LookupFailure,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> bool {
        if !matches!(failure, LookupFailure::NoReply | LookupFailure::Network(_) | LookupFailure::BadReply(_))
        {
            return false;
        }
        let Some(rule) = self.lookups.get(&id).map(|lookup| lookup.rule) else { return false };
        let way = self.rules.get(rule).map(|rule| &rule.way);
        let Some(Way::Forward { instead: Some(instead), .. }) = way else { return false };
        let instead = *instead;
        self.note(id, now, || TraceEvent::Instead);
        self.stats.instead.add(1);
        self.check_servers(rule, now, actions);
        let Some(lookup) = self.lookups.get_mut(&id) else { return false };
        lookup.rule = instead;
        let tries = std::mem::take(&mut lookup.attempts.tries);
        let resume = lookup.attempts.resume.take();
        self.drop_timer(resume, Timer::Resume(id));
        for one in tries {
            self.leave(one, now, actions);
        }
        self.load.lookup_went(rule);
        self.load.lookup_came(instead);
        self.set_out(id, now, actions);
        true
    }
}
