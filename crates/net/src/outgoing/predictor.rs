//! Whether replies come so soon that they are worth looking for before anybody waits for them. A busy worker
//! takes one turn after the other: if the server is near, its reply is there by the next one, and nothing of
//! what waiting takes has been needed. Looking costs a fraction of that, but where servers are far it is in
//! vain.

/// A reply that is found makes up for so many looks in vain.
const WORTH: u8 = 4;
/// How sure it can get that replies come soon.
const SURE: u8 = 64;
/// Where they do not, one link of so many is looked at all the same.
const SAMPLE: u8 = 128;

/// What was seen so far, mostly lately.
#[derive(Debug, Default)]
pub(super) struct ReplyPredictor {
    confidence: u8,
    /// Links opened since the last sample.
    opened: u8,
}

impl ReplyPredictor {
    /// Whether the reply on a link that is being opened is looked for before it is waited for.
    pub(super) fn expects_reply(&mut self) -> bool {
        self.opened = (self.opened + 1) % SAMPLE;
        self.confidence > 0 || self.opened == 0
    }

    /// A link was looked at.
    pub(super) fn note(&mut self, came: bool) {
        self.confidence = match came {
            true => self.confidence.saturating_add(WORTH).min(SURE),
            false => self.confidence.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many links are looked at, where of these every `n`th has something.
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
