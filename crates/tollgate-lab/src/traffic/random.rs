//! Random numbers that are the same for a seed on every machine and in every version.

/// Xoshiro256++ by Blackman and Vigna, seeded by SplitMix64 as they advise.
#[derive(Clone, Debug)]
pub(crate) struct Random([u64; 4]);

impl Random {
    /// A stream for a seed: each `stream` of a seed is another.
    pub(crate) fn new(seed: u64, stream: u64) -> Random {
        let mut state = seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Random([(); 4].map(|()| split_mix(&mut state)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.0;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.0 = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// One of `0..many`, each as likely as the others to one part in 2⁶⁴ / `many`; 0 of none.
    pub(crate) fn below(&mut self, many: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(many);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number of exponential distribution and mean one, in parts of 2³².
    ///
    /// By von Neumann's comparing of uniform numbers: no logarithm, whose last bit would be
    /// another on another machine.
    pub(crate) fn exponential(&mut self) -> u128 {
        let mut whole: u128 = 0;
        loop {
            let first = self.next();
            let mut last = first;
            let mut falling = 1u32;
            loop {
                let number = self.next();
                if number >= last {
                    break;
                }
                last = number;
                falling += 1;
            }
            if falling % 2 == 1 {
                return (whole << 32) + u128::from(first >> 32);
            }
            whole += 1;
        }
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_the_authors() {
        // SplitMix64 of seed 0, as published with it.
        let mut state = 0;
        let first = [(); 3].map(|()| split_mix(&mut state));
        assert_eq!(first, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
        // Xoshiro256++ of the state 1, 2, 3, 4.
        let mut random = Random([1, 2, 3, 4]);
        let first = [(); 4].map(|()| random.next());
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn an_exponential_number_has_mean_and_spread_of_one() {
        let mut random = Random::new(7, 0);
        let numbers: Vec<u128> = (0..100_000).map(|_| random.exponential()).collect();
        let mean = numbers.iter().sum::<u128>() / 100_000;
        let one = 1u128 << 32;
        assert!(mean.abs_diff(one) < one / 100, "{mean}");
        // Of an exponential distribution 36.8 % are above the mean, 13.5 % above twice.
        let above = |bound: u128| numbers.iter().filter(|number| **number > bound).count();
        assert!(above(one).abs_diff(36_788) < 500, "{}", above(one));
        assert!(above(2 * one).abs_diff(13_534) < 500, "{}", above(2 * one));
    }
}
