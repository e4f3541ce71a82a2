package kubelet

import (
	"context"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/fleet/shell"
)

// Names of Services and of pods behind them, as the cluster's DNS has them
// (https://github.com/kubernetes/dns/blob/master/docs/specification.md). Containers ask with nslookup and getent: init containers
// of workload controllers wait so for the pod that leads. Nothing is watched. What was read of a Service holds for a second, and
// one read is under way at a time, so that containers that ask in a loop cost the API server little.

const (
	dnsServer = "10.96.0.10" // as /etc/resolv.conf has it
	dnsDomain = "cluster.local"
	maxLabel  = 63
	maxName   = 253
	// namesKept is how many Services are remembered; then all are forgotten.
	namesKept = 1024
	namesHold = time.Second
)

// names resolves names for all containers.
type names struct {
	client kubernetes.Interface
	mu     sync.Mutex
	seen   map[types.NamespacedName]records
}

// records is what DNS has of a Service; the zero value: it does not exist.
type records struct {
	read  time.Time
	own   []string            // addresses of the Service itself
	hosts map[string][]string // addresses of its pods, by their host name
}

func newNames(client kubernetes.Interface) *names {
	return &names{client: client, seen: make(map[types.NamespacedName]records)}
}

// lookup is the full name and the addresses of a name that a pod of the namespace asks for; none where it does not exist.
func (n *names) lookup(ctx context.Context, namespace, name string) (full string, addresses []string, err error) {
	if len(name) > maxName {
		return name, nil, nil
	}
	name = strings.ToLower(name)
	tries := []string{strings.TrimSuffix(name, ".")}
	if !strings.HasSuffix(name, ".") && strings.Count(name, ".") < 5 {
		tries = []string{name + "." + namespace + ".svc." + dnsDomain, name + ".svc." + dnsDomain, name + "." + dnsDomain, name}
	}
	for _, full := range tries {
		if addresses, err = n.at(ctx, full); err != nil || len(addresses) > 0 {
			return full, addresses, err
		}
	}
	return name, nil, nil
}

// at is the addresses of a full name.
func (n *names) at(ctx context.Context, full string) ([]string, error) {
	rest, ok := strings.CutSuffix(full, "."+dnsDomain)
	if !ok {
		return nil, nil
	}
	labels := strings.Split(rest, ".")
	if slices.ContainsFunc(labels, func(l string) bool { return l == "" || len(l) > maxLabel }) {
		return nil, nil
	}
	switch count := len(labels); {
	case count == 3 && labels[2] == "pod":
		if at, err := netip.ParseAddr(strings.ReplaceAll(labels[0], "-", ".")); err == nil {
			return []string{at.String()}, nil
		}
	case count == 3 && labels[2] == "svc":
		r, err := n.service(ctx, types.NamespacedName{Namespace: labels[1], Name: labels[0]})
		return r.own, err
	case count == 4 && labels[3] == "svc":
		r, err := n.service(ctx, types.NamespacedName{Namespace: labels[2], Name: labels[1]})
		return r.hosts[labels[0]], err
	}
	return nil, nil
}

// service is what DNS has of the Service, as of a second ago at most.
func (n *names) service(ctx context.Context, key types.NamespacedName) (records, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r, ok := n.seen[key]; ok && time.Since(r.read) < namesHold {
		return r, nil
	}
	r, err := n.read(ctx, key)
	if err != nil {
		return records{}, err
	}
	if len(n.seen) >= namesKept {
		clear(n.seen)
	}
	r.read = time.Now()
	n.seen[key] = r
	return r, nil
}

func (n *names) read(ctx context.Context, key types.NamespacedName) (records, error) {
	svc, err := n.client.CoreV1().Services(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return records{}, nil
	} else if err != nil {
		return records{}, err
	}
	var r records
	if svc.Spec.ClusterIP != corev1.ClusterIPNone {
		r.own = slices.DeleteFunc(slices.Clone(svc.Spec.ClusterIPs), func(ip string) bool { return ip == "" })
		return r, nil
	}
	list, err := n.client.DiscoveryV1().EndpointSlices(key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + key.Name})
	if err != nil {
		return records{}, err
	}
	r.hosts = make(map[string][]string)
	for i := range list.Items {
		for _, e := range list.Items[i].Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			r.own = append(r.own, e.Addresses...)
			if e.Hostname != nil {
				r.hosts[*e.Hostname] = append(r.hosts[*e.Hostname], e.Addresses...)
			}
		}
	}
	slices.Sort(r.own)
	r.own = slices.Compact(r.own)
	return r, nil
}

// nslookup asks the cluster's DNS, as BusyBox's does.
func (p *process) nslookup(ctx context.Context, sp *shell.Process) int {
	args := slices.DeleteFunc(slices.Clone(sp.Args[1:]), func(a string) bool { return strings.HasPrefix(a, "-") })
	if len(args) < 1 || len(args) > 2 {
		fmt.Fprintln(sp.Stderr, "usage: nslookup HOST [SERVER]")
		return 1
	}
	out := sp.Stdout
	fmt.Fprintf(out, "Server:\t\t%s\nAddress:\t%s:53\n\n", dnsServer, dnsServer)
	full, addresses, err := p.c.w.k.names.lookup(ctx, p.c.w.current().Namespace, args[0])
	if err != nil {
		fmt.Fprintf(out, "** server can't find %s: SERVFAIL\n", args[0])
		return 1
	}
	if len(addresses) == 0 {
		fmt.Fprintf(out, "** server can't find %s: NXDOMAIN\n", args[0])
		return 1
	}
	for _, at := range addresses {
		fmt.Fprintf(out, "Name:\t%s\nAddress: %s\n", full, at)
	}
	return 0
}

// getent answers for hosts, those of /etc/hosts included.
func (p *process) getent(ctx context.Context, sp *shell.Process) int {
	if len(sp.Args) < 3 || !slices.Contains([]string{"hosts", "ahosts", "ahostsv4"}, sp.Args[1]) {
		fmt.Fprintf(sp.Stderr, "usage: %s hosts NAME\n", path.Base(sp.Args[0]))
		return 1
	}
	status := 0
	for _, name := range sp.Args[2:] {
		full, addresses := name, []string(nil)
		switch name {
		case "localhost":
			addresses = []string{"127.0.0.1"}
		case hostname(p.c.w.current()):
			addresses = []string{p.podIP}
		default:
			full, addresses, _ = p.c.w.k.names.lookup(ctx, p.c.w.current().Namespace, name)
		}
		if len(addresses) == 0 {
			status = 2
		}
		for _, at := range addresses {
			fmt.Fprintf(sp.Stdout, "%-15s %s\n", at, full)
		}
	}
	return status
}

// resolverOf is /etc/resolv.conf of a pod's containers. With the policy Default, and on its node's network, a pod asks as its node
// does, which searches nowhere.
func resolverOf(pod *corev1.Pod) string {
	var servers, search, options []string
	switch policy := pod.Spec.DNSPolicy; {
	case policy == corev1.DNSNone:
	case policy == corev1.DNSDefault, pod.Spec.HostNetwork && policy != corev1.DNSClusterFirstWithHostNet:
		servers = []string{dnsServer}
	default:
		servers, options = []string{dnsServer}, []string{"ndots:5"}
		search = []string{pod.Namespace + ".svc." + dnsDomain, "svc." + dnsDomain, dnsDomain}
	}
	if more := pod.Spec.DNSConfig; more != nil {
		servers = slices.Compact(append(servers, more.Nameservers...))
		search = append(search, more.Searches...)
		for _, o := range more.Options {
			named := func(text string) bool { return text == o.Name || strings.HasPrefix(text, o.Name+":") }
			options = slices.DeleteFunc(options, named) // the pod's own word counts
			if o.Value != nil {
				o.Name += ":" + *o.Value
			}
			options = append(options, o.Name)
		}
	}
	var text strings.Builder
	line := func(key string, values ...string) {
		if len(values) > 0 {
			fmt.Fprintf(&text, "%s %s\n", key, strings.Join(values, " "))
		}
	}
	line("search", search...)
	for _, server := range servers {
		line("nameserver", server)
	}
	line("options", options...)
	return text.String()
}

// hostsOf is /etc/hosts of a pod's containers: its own names, and those that its hostAliases give.
func hostsOf(pod *corev1.Pod, ip string) string {
	text := "127.0.0.1\tlocalhost\n::1\tlocalhost\n"
	if ip != "" {
		names := hostname(pod)
		if pod.Spec.Subdomain != "" {
			names = names + "." + pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + dnsDomain + "\t" + names
		}
		text += ip + "\t" + names + "\n"
	}
	for _, alias := range pod.Spec.HostAliases {
		text += alias.IP + "\t" + strings.Join(alias.Hostnames, "\t") + "\n"
	}
	return text
}
