package fleet

import "testing"

func TestAddressPlan(t *testing.T) {
	for _, tc := range []struct {
		slot        slot
		network, ip string
	}{
		{0, "10.244.0.0/24", "10.8.0.2"},
		{249, "10.244.249.0/24", "10.8.0.251"},
		{250, "10.244.250.0/24", "10.8.1.2"},
		{3071, "10.255.255.0/24", "10.8.12.73"},
		{3072, "10.128.0.0/24", "10.8.12.74"},
		{maxSlots - 1, "10.243.255.0/24", "10.8.131.19"},
	} {
		if got := tc.slot.podNetwork(); got != tc.network {
			t.Errorf("slot %d: pods in %s, want %s", tc.slot, got, tc.network)
		}
		if got := tc.slot.nodeIP(); got != tc.ip {
			t.Errorf("slot %d: node at %s, want %s", tc.slot, got, tc.ip)
		}
	}
}

func TestEverySlotHasItsOwnAddressesAndIsReadBack(t *testing.T) {
	networks, ips := map[string]bool{}, map[string]bool{}
	for s := range slot(maxSlots) {
		if back, ok := slotOf(s.podNetwork()); !ok || back != s {
			t.Fatalf("slot %d reads back as %d, %t from %s", s, back, ok, s.podNetwork())
		}
		networks[s.podNetwork()], ips[s.nodeIP()] = true, true
	}
	if len(networks) != maxSlots || len(ips) != maxSlots {
		t.Errorf("%d networks and %d addresses for %d slots", len(networks), len(ips), maxSlots)
	}
}

func TestForeignNetworksAreNoSlots(t *testing.T) {
	for _, network := range []string{"", "10.244.0.0/16", "10.96.0.0/24", "192.168.1.0/24", "fd00::/24", "rubbish"} {
		if s, ok := slotOf(network); ok {
			t.Errorf("%q is slot %d", network, s)
		}
	}
}
