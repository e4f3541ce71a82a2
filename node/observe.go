package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// observer watches pods and the real node, and remembers what must not be forgotten when objects are gone.
type observer struct {
	client  kubernetes.Interface
	config  *rest.Config
	sockets string // the kubelet's folder

	mu       sync.Mutex
	pods     map[string]*corev1.Pod // by namespace/name, of those that ask for devices
	offered  int64                  // devices that the node offers now
	outages  []outage
	waits    map[string]time.Duration // from when a pod was seen until it had a node, by gang; the longest
	seen     map[string]time.Time     // when a pod without a node was first seen
	lives    int                      // pods that ended after they ran on the real node
	refused  map[string]refusal
	findings []string
}

// outage is a time in which the node's word about its devices lags behind what it has: from the moment that something was
// killed until all devices are offered again. A pod that is bound in it can be refused, whoever counts.
type outage struct {
	what     string
	from, to time.Time // to is zero while it lasts
}

type refusal struct {
	pod, reason string
	at          time.Time
}

func observe(ctx context.Context, config *rest.Config, sockets string) (*observer, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	o := &observer{client: client, config: config, sockets: sockets, pods: map[string]*corev1.Pod{}, refused: map[string]refusal{}, waits: map[string]time.Duration{}, seen: map[string]time.Time{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(x any) { o.saw(x.(*corev1.Pod), false) }, UpdateFunc: func(_, x any) { o.saw(x.(*corev1.Pod), false) },
		DeleteFunc: func(x any) {
			if gone, ok := x.(cache.DeletedFinalStateUnknown); ok {
				x = gone.Obj
			}
			o.saw(x.(*corev1.Pod), true)
		},
	})
	factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(x any) { o.node(x.(*corev1.Node)) }, UpdateFunc: func(_, x any) { o.node(x.(*corev1.Node)) },
	})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return o, ctx.Err()
}

func wants(p *corev1.Pod) int64 {
	q := p.Spec.Containers[0].Resources.Limits[resourceName]
	return q.Value()
}

func over(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func (o *observer) saw(p *corev1.Pod, gone bool) {
	if wants(p) == 0 {
		return
	}
	key := p.Namespace + "/" + p.Name
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.pods[key]
	if o.pods[key] = p; gone {
		delete(o.pods, key)
	}
	if since, ok := o.seen[key]; !ok && p.Spec.NodeName == "" {
		o.seen[key] = time.Now()
	} else if ok && p.Spec.NodeName != "" {
		delete(o.seen, key)
		gang := p.Annotations[gangAnnotation]
		o.waits[gang] = max(o.waits[gang], time.Since(since))
	}
	if p.Spec.NodeName != nodeName || !over(p) || before != nil && over(before) {
		return
	}
	o.lives++
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode == exitTwice {
			o.findings = append(o.findings, fmt.Sprintf("%s was given a device that another program held", key))
		}
	}
	if p.Status.Reason != "" && p.Status.Phase == corev1.PodFailed {
		r := refusal{key, p.Status.Reason + ": " + p.Status.Message, time.Now()}
		o.refused[key] = r
		if !o.explained(r.at) {
			o.findings = append(o.findings, fmt.Sprintf("the kubelet refused %s, and all devices were offered: %s", key, r.reason))
		}
	}
}

// settle is how long after an outage a refusal may still be of a pod that was bound in it.
const settle = 3 * time.Second

func (o *observer) explained(at time.Time) bool {
	return slices.ContainsFunc(o.outages, func(x outage) bool { return x.from.Before(at) && (x.to.IsZero() || at.Before(x.to.Add(settle))) })
}

func (o *observer) node(n *corev1.Node) {
	if n.Name != nodeName {
		return
	}
	q := n.Status.Allocatable[resourceName]
	o.mu.Lock()
	defer o.mu.Unlock()
	o.offered = q.Value()
}

// breaks notes that an outage begins, and returns what ends it.
func (o *observer) breaks(what string) (mended func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := len(o.outages)
	o.outages = append(o.outages, outage{what: what, from: time.Now()})
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.outages[i].to = time.Now()
	}
}

// offers is how many devices the node offers, as the API server says.
func (o *observer) offers() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.offered
}

// gangs are the pods that are not over, by gang.
func (o *observer) gangs() map[string][]*corev1.Pod {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[string][]*corev1.Pod{}
	for _, p := range o.pods {
		if !over(p) {
			out[p.Annotations[gangAnnotation]] = append(out[p.Annotations[gangAnnotation]], p)
		}
	}
	return out
}

// rest compares what the API server, the kubelet and Berth say while nothing happens. It looks again for a while before it
// calls a difference one, because the three hear of an end one after the other.
func (o *observer) rest(ctx context.Context) error {
	var err error
	for range 40 {
		if err = o.agree(ctx); err == nil {
			break
		}
		time.Sleep(250 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("at rest: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.findings) > 0 {
		return fmt.Errorf("%d findings: %s", len(o.findings), strings.Join(o.findings, "; "))
	}
	return nil
}

func (o *observer) agree(ctx context.Context) error {
	bound, all := map[string]int64{}, int64(0)
	for gang, pods := range o.gangs() {
		running := 0
		for _, p := range pods {
			if p.Spec.NodeName == "" {
				continue
			}
			running++
			all += wants(p)
			if p.Spec.NodeName == nodeName {
				bound[p.Namespace+"/"+p.Name] = wants(p)
			}
		}
		if running != 0 && running != len(pods) {
			return fmt.Errorf("gang %s: %d of %d pods have a node", gang, running, len(pods))
		}
	}
	given, err := o.given(ctx)
	if err != nil {
		return err
	}
	holders := map[string]string{}
	for pod, ids := range given {
		for _, id := range ids {
			if other := holders[id]; other != "" {
				return fmt.Errorf("device %s was given to %s and %s", id, other, pod)
			}
			holders[id] = pod
		}
		if int64(len(ids)) != bound[pod] {
			return fmt.Errorf("the kubelet gave %s %d devices; it is bound for %d", pod, len(ids), bound[pod])
		}
	}
	for pod := range bound {
		if len(given[pod]) == 0 {
			return fmt.Errorf("%s is bound to %s, whose kubelet gave it nothing", pod, nodeName)
		}
	}
	m, err := o.metrics(ctx)
	if err != nil {
		return err
	}
	if got := int64(m["berth_fleet_allocated_gpus"]); got != all {
		return fmt.Errorf("Berth counts %d GPUs as allocated; pods on nodes hold %d", got, all)
	}
	if n := m["berth_scheduler_audit_discrepancies_total"]; n != 0 {
		return fmt.Errorf("Berth's audit found %v discrepancies", n)
	}
	return nil
}

// given are the devices that the kubelet says it gave, by pod.
func (o *observer) given(ctx context.Context) (map[string][]string, error) {
	conn, err := grpc.NewClient("unix://"+filepath.Join(o.sockets, "pod-resources/kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet: %w", err)
	}
	out := map[string][]string{}
	for _, p := range list.PodResources {
		for _, c := range p.Containers {
			for _, d := range c.Devices {
				if d.ResourceName == resourceName {
					key := p.Namespace + "/" + p.Name
					out[key] = append(out[key], d.DeviceIds...)
				}
			}
		}
	}
	return out, nil
}

// metrics are those of the scheduler that leads, without labels.
func (o *observer) metrics(ctx context.Context) (map[string]float64, error) {
	_, m, err := o.leading(ctx)
	return m, err
}

// leader is the scheduler's pod that leads.
func (o *observer) leader(ctx context.Context) (*corev1.Pod, error) {
	p, _, err := o.leading(ctx)
	return p, err
}

func (o *observer) leading(ctx context.Context) (*corev1.Pod, map[string]float64, error) {
	pods, err := o.client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: schedulerLabel})
	if err != nil {
		return nil, nil, err
	}
	var last error
	for i := range pods.Items {
		m, err := o.scrape(ctx, pods.Items[i].Status.PodIP)
		if err == nil && m["berth_scheduler_leading"] == 1 {
			return &pods.Items[i], m, nil
		}
		last = err
	}
	return nil, nil, fmt.Errorf("none of %d schedulers leads (%v)", len(pods.Items), last)
}

// longestWait is the longest that a pod of these gangs was there without a node.
func (o *observer) longestWait(gangs []string) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	var longest time.Duration
	for _, g := range gangs {
		longest = max(longest, o.waits[g])
	}
	return longest
}

// ended is how many pods have ended on the real node.
func (o *observer) ended() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lives
}

func (o *observer) scrape(ctx context.Context, ip string) (map[string]float64, error) {
	config := rest.CopyConfig(o.config)
	config.TLSClientConfig = rest.TLSClientConfig{Insecure: true} // its certificate is of its own making
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(ip, "10259")+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics: %s, %w", response.Status, err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			out[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return out, nil
}

// summary is what the outages cost.
func (o *observer) summary() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	why := map[string]int{}
	for _, r := range o.refused {
		reason, _, _ := strings.Cut(r.reason, ":")
		why[reason]++
	}
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		list = append(list, fmt.Sprintf("%d %s", why[reason], reason))
	}
	return fmt.Sprintf("%d pods ended on %s; %d outages; %d refused in them (%s)", o.lives, nodeName, len(o.outages), len(o.refused), strings.Join(list, ", "))
}
