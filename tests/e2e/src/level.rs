//! Whether something that is measured again and again stays where it was.
//!
//! What is compared are medians of thirds: a load with faults in it has peaks everywhere, and one peak is no growth.

use std::fmt;

/// How much higher the last third may be than the first.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// So many times as high,
    pub times: f64,
    /// and so much more.
    pub plus: f64,
}

/// One thing that was measured, in the order of time.
#[derive(Debug)]
pub struct Series {
    name: &'static str,
    bound: Bound,
    values: Vec<f64>,
}

impl Series {
    /// An empty one.
    pub fn new(name: &'static str, bound: Bound) -> Self {
        Self { name, bound, values: Vec::new() }
    }

    /// Adds what was measured next.
    pub fn add(&mut self, value: f64) {
        self.values.push(value);
    }

    /// The highest of all.
    pub fn highest(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }

    /// How high the last third may be.
    fn most(&self) -> f64 {
        self.thirds()[0] * self.bound.times + self.bound.plus
    }

    /// Whether the last third is higher than the bound allows.
    pub fn grows(&self) -> bool {
        self.thirds()[2] > self.most()
    }

    /// The medians of the first, the middle and the last third. The first tenth is left out: there pools and caches fill.
    fn thirds(&self) -> [f64; 3] {
        let values = &self.values[self.values.len() / 10..];
        let cut = |part: usize| values.len() * part / 3;
        [0, 1, 2].map(|third| median(&values[cut(third)..cut(third + 1)]))
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, middle, last] = self.thirds();
        let (name, most, highest) = (self.name, self.most(), self.highest());
        write!(f, "{name:26}{first:10.1}{middle:10.1}{last:10.1}{most:10.1}{highest:10.1}")
    }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(value: impl Fn(u32) -> f64) -> Series {
        let mut series = Series::new("memory", Bound { times: 1.3, plus: 10.0 });
        (0..60).map(value).for_each(|value| series.add(value));
        series
    }

    #[test]
    fn what_stays_or_goes_up_and_down_does_not_grow() {
        assert!(!series(|_| 100.0).grows());
        assert!(!series(|n| f64::from(100 + n % 7 * 30)).grows());
        assert!(!series(|n| f64::from(200 - n)).grows());
    }

    #[test]
    fn one_peak_and_a_slow_start_are_no_growth() {
        assert!(!series(|n| if n == 55 { 10_000.0 } else { 100.0 }).grows());
        assert!(!series(|n| if n < 6 { 1.0 } else { 100.0 }).grows());
    }

    #[test]
    fn what_becomes_more_all_the_time_grows() {
        assert!(series(|n| f64::from(100 + 2 * n)).grows());
        assert!(series(|n| f64::from(n * 10 + n % 7 * 30)).grows());
    }
}
