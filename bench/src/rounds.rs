//! Rounds of candidate and baseline in turn.

/// The middle of the ratios, and of both rates.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Vec<(f64, f64)>);

impl Rounds {
    pub(crate) fn add(&mut self, ours: f64, bare: f64) {
        self.0.push((ours, bare));
    }

    pub(crate) fn show(&self) -> (f64, String) {
        let middle = |of: &dyn Fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = self.0.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let ratio = middle(&|(ours, bare)| ours / bare);
        let all: Vec<String> = self.0.iter().map(|(ours, bare)| format!("{:.2}", ours / bare)).collect();
        let rates = format!("{:.0}/s against {:.0}/s; rounds {}", middle(&|r| r.0), middle(&|r| r.1), all.join(", "));
        (ratio, rates)
    }
}
