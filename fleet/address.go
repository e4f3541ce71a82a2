package fleet

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
)

const (
	// maxSlots is how many /24 networks there are in 10.128.0.0/9.
	maxSlots = 128 * 256
	// maxNodes is how many nodes the pools may ask for. It is half, so that a fleet can be
	// replaced as a whole while the old nodes are still there.
	maxNodes = maxSlots / 2
)

// A slot is a node's place in the address plan, from 0. It is stored as the node's pod network,
// which Kubernetes never lets change, so a slot lasts as long as its node.
//
//	slot 0      pods 10.244.0.0/24     node 10.8.0.2
//	slot 3071   pods 10.255.255.0/24   node 10.8.12.73
//	slot 3072   pods 10.128.0.0/24     node 10.8.12.74
type slot int

// podNetwork counts up from 10.244.0.0/24, where most clusters have their pods, and wraps at the
// end of 10.128.0.0/9.
func (s slot) podNetwork() string {
	return fmt.Sprintf("10.%d.%d.0/24", 128+(116+int(s)/256)%128, int(s)%256)
}

// nodeIP is outside the pod networks and the usual service networks.
func (s slot) nodeIP() string {
	return fmt.Sprintf("10.8.%d.%d", int(s)/250, 2+int(s)%250)
}

// slotOf reads back the slot from a pod network; false: not one of ours.
func slotOf(podNetwork string) (slot, bool) {
	p, err := netip.ParsePrefix(podNetwork)
	if err != nil || p.Bits() != 24 || !p.Addr().Is4() {
		return 0, false
	}
	a := p.Addr().As4()
	if a[0] != 10 || a[1] < 128 {
		return 0, false
	}
	return slot((int(a[1])-128+128-116)%128*256 + int(a[2])), true
}

// fingerprint gives a machine identities that are its own and the same on every run: 128 bits of
// a hash over what it is for and whose it is.
func fingerprint(what, node string) [16]byte {
	sum := sha256.Sum256([]byte(what + "\x00" + node))
	return [16]byte(sum[:16])
}

// machineID has the form of /etc/machine-id.
func machineID(node string) string {
	return fmt.Sprintf("%x", fingerprint("machine-id", node))
}

// uuidOf is a fingerprint written as a UUID.
func uuidOf(what, node string) string {
	b := fingerprint(what, node)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
