//! How long the campaigns are: once in every test run, longer with `cargo xtask faults`.

const SCALE: &str = "POSTROOM_FAULTS_SCALE";

/// How many times as many events and faults as in a test run.
pub fn scale() -> usize {
    std::env::var(SCALE).map_or(1, |text| text.parse().expect("the scale is a number"))
}
