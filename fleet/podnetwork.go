package fleet

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/berth-dev/berth/fleet/kubelet"
)

// PodNetwork leads to the pods of a fleet by their addresses. Nobody is on it before a fleet runs (Options.Pods). The zero value is ready
// to use, and safe for concurrent use.
type PodNetwork struct {
	kubelet atomic.Pointer[kubelet.Kubelet]
}

// DialPod connects to a port of the pod that has the address. false: no pod has it.
func (n *PodNetwork) DialPod(ctx context.Context, to netip.AddrPort) (net.Conn, bool, error) {
	k := n.kubelet.Load()
	if k == nil {
		return nil, false, nil
	}
	return k.DialPod(ctx, to)
}
