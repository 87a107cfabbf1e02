//! Bursts of memory controllers.

use kbc_machine::topology::Controller;

#[test]
fn bursts_go_to_channels_in_turn() {
    for (channels, burst) in [(8u32, 256u64), (3, 7), (1, 64), (64, 1)] {
        let c = Controller { channels, bandwidth: 1e9, burst };
        for address in [0u64, 1, 5, 255, 256, 700, 2047, 2048, 100_001] {
            for bytes in [0u64, 1, 6, 7, 8, 100, 256, 257, 2048, 5000] {
                let touched: std::collections::BTreeSet<u64> =
                    (address..address + bytes).map(|b| b / burst).collect();
                let mut want = vec![0u64; channels as usize];
                for b in touched {
                    want[(b % u64::from(channels)) as usize] += 1;
                }
                let got: Vec<u64> = (0..channels).map(|i| c.bursts(i, address, bytes)).collect();
                assert_eq!(got, want, "{c} {address} {bytes}");
            }
        }
    }
    // Address bits 10 to 8.
    let c = Controller { channels: 8, bandwidth: 32e9, burst: 256 };
    assert_eq!((0..8).position(|i| c.bursts(i, 0x1_2345, 1) == 1), Some(0x1_2345 >> 8 & 7));
    assert_eq!(c.bursts(7, u64::MAX, u64::MAX), (1 << 53) + 1);
}
