//! Predicts whether replies arrive so soon that reading a link before waiting for it is worthwhile. A busy
//! worker takes one turn after the other: if the server is near, its reply is there by the next one, and the
//! cost of waiting is saved. A read costs a fraction of that, but with distant servers it is in vain.

/// Reads without a reply that one with a reply makes up for.
const REPLY_WEIGHT: u8 = 4;
/// Highest confidence that replies arrive soon.
const MAX_CONFIDENCE: u8 = 64;
/// While replies do not arrive soon, one of this many links is read early all the same.
const SAMPLED_ONE_IN: u8 = 128;

/// Results of early reads, recent ones weighing most.
#[derive(Debug, Default)]
pub(super) struct ReplyPredictor {
    confidence: u8,
    /// Links opened since the last sample.
    opened: u8,
}

impl ReplyPredictor {
    /// Returns whether a link that is being opened is read before it is waited for.
    pub(super) fn expects_reply(&mut self) -> bool {
        self.opened = (self.opened + 1) % SAMPLED_ONE_IN;
        self.confidence > 0 || self.opened == 0
    }

    /// Notes the result of an early read.
    pub(super) fn note(&mut self, came: bool) {
        self.confidence = match came {
            true => self.confidence.saturating_add(REPLY_WEIGHT).min(MAX_CONFIDENCE),
            false => self.confidence.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of `links` links are read early, where every `n`th has a reply.
    fn looked_at(predictor: &mut ReplyPredictor, links: usize, n: usize) -> usize {
        let mut looked = 0;
        for _ in 0..links {
            if predictor.expects_reply() {
                looked += 1;
                predictor.note(looked % n == 0);
            }
        }
        looked
    }

    #[test]
    fn near_servers_are_found_out_and_distant_ones_cost_next_to_nothing() {
        let mut predictor = ReplyPredictor::default();
        assert!(looked_at(&mut predictor, 10_000, 1) > 9_800, "replies are always there");
        assert!(looked_at(&mut predictor, 10_000, 3) > 9_900, "and often");
        let distant = looked_at(&mut predictor, 10_000, usize::MAX);
        assert!((70..250).contains(&distant), "never: {distant}");
        assert!(looked_at(&mut predictor, 10_000, 2) > 9_000, "and again");
    }
}
