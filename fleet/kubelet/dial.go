package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/berth-dev/berth/fleet/shell"
)

// network is the pods that have an address of their own, by address: what the pods' network is to the API server. Pods on the network
// of their node are not on it. Safe for concurrent use; the zero value is ready to use.
type network struct {
	mu sync.Mutex
	at map[netip.Addr]*worker
}

func (n *network) join(w *worker, ip string) {
	at, err := netip.ParseAddr(ip)
	if err != nil { // its node has no address left
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at == nil {
		n.at = make(map[netip.Addr]*worker)
	}
	n.at[at] = w
}

// leave takes the pod off the network. The address may be another's by now.
func (n *network) leave(w *worker, ip string) {
	at, err := netip.ParseAddr(ip)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at[at] == w {
		delete(n.at, at)
	}
}

func (n *network) podAt(at netip.Addr) *worker {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at[at]
}

// DialPod connects to a port of the simulated pod that has the address. false: no pod has it.
func (k *Kubelet) DialPod(ctx context.Context, to netip.AddrPort) (net.Conn, bool, error) {
	w := k.network.podAt(to.Addr())
	if w == nil {
		return nil, false, nil
	}
	inside := w.inside()
	if inside == nil {
		return nil, true, fmt.Errorf("dial tcp %s: no container of the pod runs", to)
	}
	conn, err := inside.Dial(ctx, int(to.Port()))
	if err != nil {
		return nil, true, fmt.Errorf("dial tcp %s: %w", to, err)
	}
	return conn, true, nil
}

// inside is the network that the pod's containers share; nil: none of them runs.
func (w *worker) inside() *shell.Net {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.containers {
		if c.running != nil {
			return c.running.net
		}
	}
	return nil
}
