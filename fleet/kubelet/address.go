package kubelet

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

// addresses are the pod addresses that a machine has given out. The zero value is ready to use.
type addresses struct {
	byPod map[types.UID]netip.Addr
	taken map[netip.Addr]bool
	last  netip.Addr // given out last; the next search starts behind it
}

// address gives the pod an address of the machine's pod network: the one it had, if it is free, else
// the next free one. "": the network is full or there is none, and the pod has no address.
func (h *host) address(uid types.UID, had, network string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	prefix, err := netip.ParsePrefix(network)
	if err != nil {
		return ""
	}
	if a, ok := h.leases.byPod[uid]; ok {
		return a.String()
	}
	if a, err := netip.ParseAddr(had); err == nil && prefix.Contains(a) && !h.leases.taken[a] {
		return h.leases.give(uid, a)
	}
	return h.leases.next(uid, prefix)
}

// next searches once around the network, leaving out its first two addresses (the network itself and
// the machine's bridge) and its last (broadcast).
func (l *addresses) next(uid types.UID, network netip.Prefix) string {
	first := network.Masked().Addr().Next().Next()
	after := func(a netip.Addr) netip.Addr {
		if a = a.Next(); !network.Contains(a) || !network.Contains(a.Next()) {
			return first
		}
		return a
	}
	start := first
	if l.last.IsValid() {
		start = after(l.last)
	}
	for a := start; network.Contains(a); {
		if !l.taken[a] {
			return l.give(uid, a)
		}
		if a = after(a); a == start {
			break
		}
	}
	return ""
}

func (l *addresses) give(uid types.UID, a netip.Addr) string {
	if l.byPod == nil {
		l.byPod, l.taken = make(map[types.UID]netip.Addr), make(map[netip.Addr]bool)
	}
	l.byPod[uid], l.taken[a], l.last = a, true, a
	return a.String()
}

func (l *addresses) free(uid types.UID) {
	if a, ok := l.byPod[uid]; ok {
		delete(l.byPod, uid)
		delete(l.taken, a)
	}
}
