package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// Selects evaluates an expression about a device of a driver.
type Selects = func(expression, driver string, d *resourcev1.Device) (bool, error)

// Derives evaluates an expression that makes an attribute of a device.
type Derives = func(expression, driver string, d *resourcev1.Device) (*resourcev1.DeviceAttribute, error)

// devices is what resource claims depend on. What a node offers follows from its slices, from the selections and attributes that
// known claims ask about, and from which devices are held by claims whose pods are not on nodes.
type devices struct {
	selects Selects // nil: claims are not decided, and say so
	derives Derives // nil: devices have no derived attributes
	gpu     string  // the resource under which whole GPUs count

	slices  map[string]*resourcev1.ResourceSlice            // by name
	pools   map[string]map[string]*resourcev1.ResourceSlice // by driver and pool, then by name
	nodes   map[string]string                               // by driver and pool: the node that it is of, or everywhere
	local   map[string]map[string]bool                      // by that: its pools
	offered map[string]convert.Offered                      // by node; as read of the slices
	far     convert.Offered                                 // the devices of pools that are everywhere
	reaches []reach                                         // by device of far: which nodes reach it
	taken   map[string][]string                             // what claims of which no pod is on a node have of devices of far, by device
	claims  map[string]*resourcev1.ResourceClaim            // by key
	classes map[string]*resourcev1.DeviceClass
	taints  map[string]*resourcev1.DeviceTaintRule // by name
	users   map[string]map[string]*member          // pods of any scheduler, by claim, then by key
	extra   map[types.UID]string                   // claims that stand for extended resources, by pod
	loose   map[string]time.Time                   // claims with idleUsers, since when as far as was noticed

	holding map[string]map[string]bool // by node: the claims that hold devices of it
	// underway are, by node and then by UID of a pod, the claims of starts that are being seen to. gone says of one that its pod is not there
	// any more.
	underway map[string]map[string]*DeviceWant
	gone     func(*DeviceWant) bool

	selections map[string]convert.Selection // that claims ask for
	resources  map[string]convert.Selection // that device classes have and pods request, besides GPUs
	met        map[string]meeting           // by selection; since the devices last changed
	attributes map[string]bool              // that claims want to agree in
	derived    map[string]string            // expressions of attributes that requests derive, by name
	grown      bool                         // there are more of either
	crowded    bool                         // there were more selections than are kept

	hosts map[string]*corev1.Node // nodes that list GPUs as broken, by name

	undone map[string]bool // keys of pods for which it matters that other devices come or go: nothing is decided about those that they want, or there are none
	asking map[string]bool // keys of pods that wait and ask for devices, by claims or as extended resources
	pods   map[string]bool // keys of pods to give again
	stale  map[string]bool // names of nodes to give again
	// The devices that several nodes reach changed: all nodes are to be given again.
	farMoved bool
	moved    map[string]bool // pools that are of another node than before: where claims hold devices is to be worked out anew
}

// maxSelections is how many different selections are kept. When there are more, all are forgotten and those that are still asked
// for entered again: each costs a look at every device.
const maxSelections = 256

func newDevices(selects Selects, derives Derives, gpu string) *devices {
	return &devices{
		selects: selects, derives: derives, gpu: gpu,
		slices: make(map[string]*resourcev1.ResourceSlice), pools: make(map[string]map[string]*resourcev1.ResourceSlice), local: make(map[string]map[string]bool), offered: make(map[string]convert.Offered), nodes: make(map[string]string),
		claims: make(map[string]*resourcev1.ResourceClaim), classes: make(map[string]*resourcev1.DeviceClass), taints: make(map[string]*resourcev1.DeviceTaintRule), users: make(map[string]map[string]*member), extra: make(map[types.UID]string), resources: make(map[string]convert.Selection), loose: make(map[string]time.Time), holding: make(map[string]map[string]bool), underway: make(map[string]map[string]*DeviceWant), met: make(map[string]meeting),
		hosts: make(map[string]*corev1.Node), selections: make(map[string]convert.Selection), attributes: make(map[string]bool), derived: make(map[string]string), undone: make(map[string]bool), moved: make(map[string]bool), asking: make(map[string]bool), pods: make(map[string]bool), stale: make(map[string]bool),
	}
}

// join notes which claims the pod has.
func (d *devices) join(m *member) {
	claims, _ := d.claimsOf(m)
	for _, c := range claims {
		insert(d.users, c.Key, m.key, m)
		d.claimMoved(c.Key)
	}
}

func (d *devices) leave(m *member) {
	delete(d.undone, m.key)
	delete(d.asking, m.key)
	claims, _ := d.claimsOf(m)
	for _, c := range claims {
		cut(d.users, c.Key, m.key)
		d.claimMoved(c.Key)
	}
}

// claimsOf are the pod's claims; the one that stands for its extended resources, if there is one, comes last and has no name.
func (d *devices) claimsOf(m *member) (claims []convert.PodClaim, missing []string) {
	claims, missing = convert.ResourceClaims(m.pod)
	if Expected(m.pod) {
		missing = absentTemplates(m.pod)
	}
	if key := d.extra[m.pod.UID]; key != "" {
		claims = append(claims, convert.PodClaim{Key: key})
	}
	return claims, missing
}

// claimMoved has the next cycle look at the claim's pods, and at the nodes of its devices.
func (d *devices) claimMoved(key string) {
	for pod := range d.users[key] {
		d.pods[pod] = true
	}
	if len(d.idleUsers(key)) == 0 {
		delete(d.loose, key)
	} else if _, known := d.loose[key]; !known {
		d.loose[key] = time.Time{}
	}
	if c := d.claims[key]; c != nil {
		for _, id := range convert.Holds(c) {
			if node := d.nodeOf(id); node != "" {
				d.stale[node] = true
			}
		}
	}
}

// setClaim takes in a claim, nil where it is gone.
func (d *devices) setClaim(key string, c *resourcev1.ResourceClaim) {
	d.claimMoved(key)
	d.holds(key, false)
	if d.claims[key] = c; c == nil {
		delete(d.claims, key)
	}
	d.holds(key, true)
	d.claimMoved(key)
}

// holds enters the claim at the nodes of its devices, or takes it out there.
func (d *devices) holds(key string, does bool) {
	c := d.claims[key]
	if c == nil {
		return
	}
	for _, id := range convert.Holds(c) {
		if node := d.nodeOf(id); node != "" && does {
			insert(d.holding, node, key, true)
		} else {
			cut(d.holding, node, key)
		}
	}
}

// nodeOf is the node that a device is of, or everywhere; "" where that is not known.
func (d *devices) nodeOf(id string) string {
	return d.nodes[poolOfDevice(id)]
}

// poolOfDevice is the driver and pool of a device; "" where the ID has none.
func poolOfDevice(id string) string { return id[:max(0, strings.LastIndexByte(id, '/'))] }

// SetResourceClaim takes in a resource claim.
func (f *Feed) SetResourceClaim(c *resourcev1.ResourceClaim) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := keyOf(c)
	if outdated(f.devices.claims[key], c) {
		return
	}
	f.standsFor(key, c, true)
	f.devices.setClaim(key, c)
	//archtest:any-order each has a signal of its own
	for pod := range f.devices.users[key] {
		if r := f.storage.preparing[pod]; r != nil {
			r.poke()
		}
	}
	f.out.wake()
}

// RemoveResourceClaim takes a resource claim away.
func (f *Feed) RemoveResourceClaim(c *resourcev1.ResourceClaim) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if have := f.devices.claims[keyOf(c)]; have != nil && have.UID != c.UID {
		return // another has its name by now
	}
	f.devices.setClaim(keyOf(c), nil)
	f.standsFor(keyOf(c), c, false)
	f.out.wake()
}

// ResourceClaim is the claim as last seen, nil for none.
func (f *Feed) ResourceClaim(key string) *resourcev1.ResourceClaim {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.devices.claims[key]
}

// TakenAlternatives says with which alternatives the requests of the pod's claims are met, where they list some.
func (f *Feed) TakenAlternatives(pod string) (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members.pods[pod]
	if m == nil || len(m.pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	claims, _ := convert.ResourceClaims(m.pod)
	for _, named := range claims {
		if c := f.devices.claims[named.Key]; c != nil {
			out = append(out, convert.TakenAlternatives(named.Name, c)...)
		}
	}
	return out
}

// LearnResourceClaim takes in what the claim became by our own doing, ahead of the watch.
func (f *Feed) LearnResourceClaim(c *resourcev1.ResourceClaim) {
	if have := f.ResourceClaim(keyOf(c)); have != nil && have.UID == c.UID {
		f.SetResourceClaim(c)
	}
}

// SetSlice takes in devices that a driver offers.
func (f *Feed) SetSlice(s *resourcev1.ResourceSlice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.devices.setSlice(s.Name, s)
	f.out.wake()
}

// RemoveSlice takes them away.
func (f *Feed) RemoveSlice(s *resourcev1.ResourceSlice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.devices.setSlice(s.Name, nil)
	f.out.wake()
}

// setSlice takes in a slice, nil where it is gone.
func (d *devices) setSlice(name string, s *resourcev1.ResourceSlice) {
	was := d.slices[name]
	if was != nil {
		cut(d.pools, poolOf(was), name)
		delete(d.slices, name)
	}
	if s != nil {
		d.slices[name] = s
		insert(d.pools, poolOf(s), name, s)
		d.poolMoved(poolOf(s))
	}
	if was != nil && (s == nil || poolOf(s) != poolOf(was)) {
		d.poolMoved(poolOf(was))
	}
}

func poolOf(s *resourcev1.ResourceSlice) string { return s.Spec.Driver + "/" + s.Spec.Pool.Name }

// everywhere stands for a node where pools are meant whose devices are not all of one node.
const everywhere = "*"

// homeOf is the node that all slices of the pool name, or everywhere.
func (d *devices) homeOf(pool string) string {
	home := ""
	//archtest:any-order it asks whether all are the same
	for _, s := range d.pools[pool] {
		if s.Spec.NodeName == nil || *s.Spec.NodeName == "" || home != "" && home != *s.Spec.NodeName {
			return everywhere
		}
		home = *s.Spec.NodeName
	}
	return home
}

// poolMoved reads the devices of the pool, and of those beside it. Of one that has no slices any more it is still known where it was: claims
// may have its devices.
func (d *devices) poolMoved(pool string) {
	was := d.nodes[pool]
	home := cmp.Or(d.homeOf(pool), was)
	if home != was {
		d.nodes[pool], d.moved[pool] = home, true
		cut(d.local, was, pool)
	}
	if insert(d.local, home, pool, true); len(d.pools[pool]) == 0 {
		cut(d.local, home, pool)
	}
	for _, at := range slices.Compact([]string{was, home}) {
		switch at {
		case "":
		case everywhere:
			d.readFar()
		default:
			d.read(at)
		}
	}
}

// readFar reads the devices that several nodes reach. Which pods wait for those depends on them, as on classes.
func (d *devices) readFar() {
	d.far = convert.ReadSlices(d.tainted(everywhere))
	d.reaches = make([]reach, len(d.far.Devices))
	for i := range d.far.Devices {
		d.reaches[i] = newReach(d.far.Devices[i].Reach)
	}
	clear(d.met)
	d.farMoved = true
	d.classMoved()
}

func (d *devices) read(node string) {
	d.offered[node] = convert.ReadSlices(d.tainted(node))
	//archtest:any-order it fills a set
	for key := range d.undone {
		d.pods[key] = true
	}
	d.holdersMoved(node)
	if len(d.local[node]) == 0 {
		delete(d.offered, node)
	}
	d.stale[node] = true
	clear(d.met)
}

// holdersMoved has the pods looked at whose claims have devices of the node: what they are charged depends on what these are.
func (d *devices) holdersMoved(node string) {
	//archtest:any-order it fills a set
	for claim := range d.holding[node] {
		for key := range d.users[claim] {
			d.pods[key] = true
		}
	}
}

// tainted are the slices of the node with the taints that rules put on their devices, and one on those that the node lists as broken.
func (d *devices) tainted(node string) []*resourcev1.ResourceSlice {
	var out []*resourcev1.ResourceSlice
	for _, pool := range sortedNames(d.local[node]) {
		for _, name := range sortedNames(d.pools[pool]) {
			out = append(out, convert.WithoutBroken(d.pools[pool][name], d.hosts[node]))
		}
	}
	return d.withTaints(out)
}

// broken takes in which GPUs a node lists as broken, nil where it is gone.
func (d *devices) broken(name string, n *corev1.Node) {
	was := d.hosts[name]
	lists := n != nil && n.Annotations[v1alpha1.KeyUnhealthyGPUs] != ""
	if was == nil && !lists {
		return
	}
	if d.hosts[name] = n; !lists {
		delete(d.hosts, name)
	}
	same := was != nil && lists && was.Annotations[v1alpha1.KeyUnhealthyGPUs] == n.Annotations[v1alpha1.KeyUnhealthyGPUs] && was.Annotations[v1alpha1.KeyTrustedGPUs] == n.Annotations[v1alpha1.KeyTrustedGPUs]
	if !same && len(d.local[name]) > 0 {
		d.read(name)
	}
}

// withTaints puts the taints of rules on the slices' devices, in place.
func (d *devices) withTaints(all []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	rules := make([]*resourcev1.DeviceTaintRule, 0, len(d.taints))
	for _, name := range sortedNames(d.taints) {
		rules = append(rules, d.taints[name])
	}
	for i := range all {
		all[i] = convert.Tainted(all[i], rules)
	}
	return all
}

// SetTaintRule takes in a rule by which devices have a taint.
func (f *Feed) SetTaintRule(r *resourcev1.DeviceTaintRule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.devices.taints[r.Name] = r
	f.devices.taintsMoved()
	f.out.wake()
}

// RemoveTaintRule takes it away.
func (f *Feed) RemoveTaintRule(r *resourcev1.DeviceTaintRule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.devices.taints, r.Name)
	f.devices.taintsMoved()
	f.out.wake()
}

// taintsMoved reads all devices again: taint rules come and go with repairs of hardware, and so seldom.
func (d *devices) taintsMoved() {
	for _, node := range sortedNames(d.local) {
		if node == everywhere {
			d.readFar()
		} else {
			d.read(node)
		}
	}
}

// classMoved has every claim looked at: few classes come and go.
func (d *devices) classMoved() {
	//archtest:any-order it fills a set
	for _, pods := range d.users {
		for key := range pods {
			d.pods[key] = true
		}
	}
	maps.Copy(d.pods, d.asking)
	clear(d.resources)
	d.grown = true
}

// onNode adds to the node what its devices are, and those that it reaches besides.
func (d *devices) onNode(n *engine.Node, object *corev1.Node) {
	if d.selects == nil {
		return
	}
	offered := d.offered[n.Name]
	own := len(offered.Devices)
	offered, reached := d.withFar(offered, object)
	if len(offered.Devices) == 0 {
		return
	}
	attributes, gpus, cards := slices.Sorted(maps.Keys(d.attributes)), int64(0), false
	n.Counters = offered.Counters
	order := upstreamOrder(&offered)
	held, unsure := d.unplaced(n.Name), d.unsure(&offered, object)
	for _, i := range order {
		dev := &offered.Devices[i]
		far := i >= own
		matches, fails, blocks := d.matching(dev, unsure)
		if dev.TakesOfNode() || dev.Skips && !convert.MaySkipOperations(object) {
			matches, blocks = keptFrom(matches, blocks)
		}
		if far && !reached[i-own].here { // it is not offered; its holder draws on its counters all the same, and selectors see it
			matches, blocks = nil, nil
		}
		o := dev.Offer(matches, fails, blocks, attributes, d.derive(dev))
		of := held[o.ID]
		if far {
			of, o.Reach = d.taken[o.ID], reached[i-own].name
		}
		for _, text := range of {
			if o.Taken = o.Taken || text == o.ID || !o.Shared; text != o.ID && o.Shared {
				o.Held = append(o.Held, text)
			}
		}
		n.Offers = append(n.Offers, o)
		if !far && dev.WholeGPU() {
			gpus++
		}
		cards = cards || !far && dev.OfGPUs()
	}
	// A device plugin beside a driver of GPUs counts the same cards: to give one of them to a pod of each kind is what must not happen. A card
	// that several nodes reach is none of those that the plugin counts.
	if cards {
		n.ByClaims = append(n.ByClaims, d.gpu)
	}
	if gpus > 0 {
		n.Allocatable = convert.Plus(n.Allocatable, d.gpu, gpus)
	}
	for _, resource := range slices.Sorted(maps.Keys(d.resources)) {
		if count := d.matched(n, resource); count > 0 && n.Allocatable.Get(resource) == 0 {
			n.Allocatable = convert.Plus(n.Allocatable, resource, count)
			n.ByClaims = append(n.ByClaims, resource)
		}
	}
	slices.Sort(n.ByClaims)
}

// keptFrom is what a device that the node cannot have is to selections: it matches none, and blocks those that want all devices.
func keptFrom(matches []convert.Selection, blocks []string) ([]convert.Selection, []string) {
	for i := range matches {
		if matches[i].All {
			blocks = append(blocks, matches[i].Name)
		}
	}
	slices.Sort(blocks)
	return nil, blocks
}

// upstreamOrder is the order in which upstream's allocator tries the devices of a node: by driver and pool, those last whose devices have to be
// attached.
func upstreamOrder(offered *convert.Offered) []int {
	attaches := make(map[string]bool)
	out := make([]int, len(offered.Devices))
	for i := range offered.Devices {
		out[i] = i
		if offered.Devices[i].BindingConditions != nil {
			attaches[offered.Devices[i].Pool] = true
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		x, y := &offered.Devices[a], &offered.Devices[b]
		if attaches[x.Pool] != attaches[y.Pool] {
			if attaches[x.Pool] {
				return 1
			}
			return -1
		}
		return cmp.Or(strings.Compare(x.Driver, y.Driver), strings.Compare(x.Pool, y.Pool))
	})
	return out
}

// unsure says whether it is not known which devices the node reaches: no claim for all of them is met then.
func (d *devices) unsure(offered *convert.Offered, n *corev1.Node) bool {
	return slices.ContainsFunc(slices.Concat(offered.Unsure, d.far.Unsure), func(r convert.Reach) bool {
		at := newReach(r)
		return n != nil && at.holds(n)
	})
}

// InvalidPools is on how many nodes there are pools of devices that contradict themselves, and the first of these pools by name with what is
// wrong with it.
func (f *Feed) InvalidPools() (nodes int, first string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.devices
	all := slices.Clone(d.far.Invalid)
	//archtest:any-order the least is looked for
	for _, offered := range d.offered {
		all = append(all, offered.Invalid...)
	}
	if len(all) == 0 {
		return 0, ""
	}
	var at []reach
	for _, p := range all {
		for _, r := range p.Reach {
			at = append(at, newReach(r))
		}
	}
	least := slices.MinFunc(all, func(a, b convert.InvalidPool) int { return strings.Compare(a.Name, b.Name) })
	//archtest:any-order they are counted
	for _, n := range f.nodes.objects {
		if slices.ContainsFunc(at, func(r reach) bool { return r.holds(n) }) {
			nodes++
		}
	}
	return nodes, least.Name + ": " + least.Why
}

// matched counts the node's devices that a resource is had from. Of parts of a card it is more than can be had at once, which the
// choice of devices sees to.
func (d *devices) matched(n *engine.Node, resource string) (count int64) {
	selection := d.resources[resource]
	for i := range n.Offers {
		if n.Offers[i].Matches(selection.Name) {
			count++
		}
	}
	return count
}

// matching are the selections that the device matches, and the names of those that fail for it, and of those of all devices that it blocks,
// sorted. With unsure all devices cannot be evaluated.
func (d *devices) matching(dev *convert.OfferedDevice, unsure bool) (matches []convert.Selection, fails, blocks []string) {
	//archtest:any-order they are sorted below
	for name, s := range d.selections {
		meant, err := d.isMeant(&s, dev)
		is := dev.For(&s, meant, err)
		if is.Matches {
			matches = append(matches, s)
		}
		if is.Fails || unsure && s.All {
			fails = append(fails, name)
		}
		if is.Blocks {
			blocks = append(blocks, name)
		}
	}
	slices.SortFunc(matches, func(a, b convert.Selection) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(fails)
	slices.Sort(blocks)
	return matches, fails, blocks
}

// unplaced are, by device of the node, what claims have of it of which no pod is on a node: the whole, or shares. What a start gives to claims
// of a pod that is gone meanwhile counts too: whether they have it by now is known when the start is over.
func (d *devices) unplaced(node string) map[string][]string {
	out := make(map[string][]string)
	add := func(has []string) {
		for _, text := range has {
			if id := engine.DeviceOf(text); d.nodeOf(id) == node {
				out[id] = append(out[id], text)
			}
		}
	}
	for _, key := range sortedNames(d.holding[node]) {
		if !d.inUse(key) {
			add(d.held(d.claims[key]))
		}
	}
	for _, uid := range sortedNames(d.underway[node]) {
		if w := d.underway[node][uid]; d.gone(w) {
			add(d.unwritten(w))
		}
	}
	return out
}

// unwritten are the devices of the pod's plan that none of its claims is known to have.
func (d *devices) unwritten(w *DeviceWant) []string {
	left := slices.Clone(w.Devices)
	for _, key := range slices.Concat(w.Claims, w.Shared, []string{d.extra[types.UID(w.UID)]}) {
		c := d.claims[key]
		if c == nil {
			continue
		}
		for _, text := range d.held(c) {
			if i := slices.Index(left, text); i >= 0 {
				left = slices.Delete(left, i, i+1)
			}
		}
	}
	return left
}

// places are the nodes that the devices of the pod's plan are of, everywhere among them where one is of none.
func (d *devices) places(w *DeviceWant) []string {
	if slices.ContainsFunc(w.Devices, func(text string) bool { return d.nodeOf(engine.DeviceOf(text)) == everywhere }) {
		return []string{w.Node, everywhere}
	}
	return []string{w.Node}
}

// begin notes the claims of a start that is being seen to.
func (d *devices) begin(r *Reservation) {
	for i := range r.Devices {
		w := &r.Devices[i]
		for _, at := range d.places(w) {
			insert(d.underway, at, w.UID, w)
		}
	}
}

// finish forgets them. What became of the claims is known, or the watch will tell.
func (d *devices) finish(r *Reservation) {
	for i := range r.Devices {
		w := &r.Devices[i]
		for _, at := range []string{w.Node, everywhere} {
			if d.underway[at][w.UID] == w { // and not that of a later start
				cut(d.underway, at, w.UID)
				if d.gone(w) {
					d.stale[at] = true
				}
			}
		}
	}
}

// left has the devices of a pod's plan looked at when the pod goes while its start is being seen to; r is nil where there is none.
func (d *devices) left(m *member, r *Reservation) {
	if r == nil {
		return
	}
	for i := range r.Devices {
		if w := &r.Devices[i]; w.UID == string(m.pod.UID) {
			for _, at := range d.places(w) {
				d.stale[at] = true
			}
		}
	}
}

// held is what the claim has: devices by their ID, and shares as the engine writes them.
func (d *devices) held(c *resourcev1.ResourceClaim) (out []string) {
	for _, r := range convert.Held(c) {
		id := convert.DeviceID(r.Driver, r.Pool, r.Device)
		if dev := d.device(id); dev != nil {
			id = dev.Share(r)
		}
		out = append(out, id)
	}
	return out
}

// device is the one with the ID, nil for none.
func (d *devices) device(id string) *convert.OfferedDevice {
	offered := d.offered[d.nodeOf(id)].Devices
	if d.nodeOf(id) == everywhere {
		offered = d.far.Devices
	}
	if i := slices.IndexFunc(offered, func(o convert.OfferedDevice) bool { return o.ID == id }); i >= 0 {
		return &offered[i]
	}
	return nil
}

// inUse says whether a pod on a node has the claim.
func (d *devices) inUse(claim string) bool {
	//archtest:any-order it asks whether there is one
	for _, m := range d.users[claim] {
		if m.bound() {
			return true
		}
	}
	return false
}

// claimDevices adds to the pod what its claims ask for or have. missing says what keeps it from the engine.
func (f *Feed) claimDevices(m *member, v *engine.Pod) (missing []string) {
	d := f.devices
	if d.selects == nil {
		return nil
	}
	delete(d.asking, m.key)
	claims, missing := d.claimsOf(m)
	stands := f.extendedClaim(m)
	if len(m.pod.Spec.ResourceClaims) == 0 && len(claims) == 0 && stands == nil {
		return append(missing, f.classless(m)...)
	}
	if len(m.pod.Spec.ResourceClaims) > convert.MaxResourceClaims {
		return nil // it stays unsupported
	}
	var asked convert.Asked
	gpus, parts := int64(0), int64(0)
	var together []string // claims that it shares with members of its gang
	for _, named := range claims {
		key := named.Key
		c := d.claims[key]
		switch {
		case named.Name == "":
			// While the pod waits, what an earlier start left of it is removed, and counts for nothing.
			if c != nil && !m.waiting() {
				v.Devices = append(v.Devices, d.held(c)...)
				held, of := d.gpusHeld(c)
				gpus += max(0, held-v.Requests.Get(d.gpu))
				parts += of
			}
		case c == nil:
			missing = append(missing, "resource claim "+key+" does not exist")
		case c.DeletionTimestamp != nil:
			missing = append(missing, "resource claim "+key+" is being deleted")
		case c.Status.Allocation != nil:
			v.Devices = append(v.Devices, d.held(c)...)
			if d.pays(m, key) {
				held, of := d.gpusHeld(c)
				gpus, parts = gpus+held, parts+of
			}
			if m.waiting() {
				v.Nodes = f.reaching(c, v.Nodes)
				if !resourceclaim.IsReservedForPod(m.pod, c, true) && len(c.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize {
					missing = append(missing, fmt.Sprintf("resource claim %s is in use by %d pods, as many as can be", key, len(c.Status.ReservedFor)))
				}
			}
		case m.waiting() || Expected(m.pod):
			first, shared := d.firstOf(m, key)
			if first == m || !shared {
				asked.Add(named.Name, c, func(name string) *resourcev1.DeviceClass { return d.classes[name] })
			}
			if first != m && !shared {
				missing = append(missing, fmt.Sprintf("resource claim %s gets its devices with pod %s first", key, first.pod.Name))
			}
			if shared {
				together = append(together, key)
			}
		}
	}
	keepTogether(v, together)
	delete(d.undone, m.key)
	if m.waiting() {
		v.Devices = nil
		asked.Claims.Counted = stands != nil && len(asked.Claims.Requests) == 0
		counted := int64(0)
		if stands != nil {
			asked.Add("resources", stands, func(name string) *resourcev1.DeviceClass { return d.classes[name] })
			if f.classOf(d.gpu) != nil {
				counted = v.Requests.Get(d.gpu) // they are among its requests already
			}
		}
		asked.Claims.GPUsByCount = v.Part != nil || v.Requests.Get(d.gpu) > counted
		missing = append(missing, f.classless(m)...)
		missing = append(missing, asked.Missing...)
		if what := d.undecided(&asked); what != "" {
			d.undone[m.key] = true
			v.Features = slices.Clone(v.Features)
			if at := slices.Index(v.Features, why.Claims); at >= 0 {
				v.Features[at] = what
			} else {
				v.Features = append(v.Features, what) // a claim of its PodGroup, or one that stands for resources
			}
			return missing
		}
		if len(asked.Selections) > 0 {
			d.asking[m.key] = true
		}
		d.learn(&asked)
		f.learnResources(stands)
		whole, of := d.gpusAsked(&asked)
		gpus += max(0, whole-counted)
		parts += of
		if d.mayChange(&asked) {
			d.undone[m.key] = true
		}
	}
	v.Claims = f.nextClaims(m, v, claims)
	if Expected(m.pod) && m.bound() { // its Job is let in: its GPUs are counted, and which they are its pods will say
		whole, of := d.gpusAsked(&asked)
		gpus, parts, asked = gpus+whole, parts+of, convert.Asked{}
	}
	if len(asked.Claims.Requests) > 0 {
		v.Claims = &asked.Claims
	}
	if gpus > 0 {
		v.Requests = convert.Plus(v.Requests, d.gpu, gpus)
		m.takes = v.Requests
	}
	v.Claimed = min(parts, engine.MaxClaimDevices*engine.Whole)
	v.Features = slices.DeleteFunc(slices.Clone(v.Features), func(x why.Feature) bool { return x == why.Claims })
	return missing
}

// pays says whether the devices of a claim count as this pod's: as those of the first by name of the pods on nodes that have it.
func (d *devices) pays(m *member, claim string) bool {
	if !m.bound() {
		return false
	}
	//archtest:any-order it asks whether there is one
	for key, o := range d.users[claim] {
		if o.bound() && key < m.key {
			return false
		}
	}
	return true
}

// reaching are those of names, of which nil is all nodes, from which the devices of the claim can be reached.
func (f *Feed) reaching(c *resourcev1.ResourceClaim, names []string) []string {
	skips := convert.SkipsOperations(c)
	if c.Status.Allocation.NodeSelector == nil && !skips {
		return names
	}
	reached := func(*corev1.Node) bool { return true }
	if c.Status.Allocation.NodeSelector != nil {
		match, err := nodeaffinity.NewNodeSelector(c.Status.Allocation.NodeSelector)
		reached = func(n *corev1.Node) bool { return err == nil && match.Match(n) }
	}
	out := []string{}
	//archtest:any-order they are sorted below
	for name, n := range f.nodes.objects {
		if reached(n) && (!skips || convert.MaySkipOperations(n)) && (names == nil || slices.Contains(names, name)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// meeting is which devices meet a selection.
type meeting struct {
	some  bool  // there are such
	parts bool  // not all of them are whole GPUs
	least int64 // of a GPU that one of them, or the share of it that is asked for, is, in thousandths
	known bool  // some are decided about
	far   bool  // some are not: too many are reached by several nodes
	taker bool  // some are not: they take of their nodes besides
}

// meets looks at all devices once for a selection, until they change.
func (d *devices) meets(s *convert.Selection) meeting {
	out, known := d.met[s.Name]
	if known {
		return out
	}
	look := func(offered *convert.Offered, far bool) {
		for i := range offered.Devices {
			dev := &offered.Devices[i]
			if !d.isSelected(s, dev) {
				continue
			}
			of := dev.OfGPU()
			if dev.Shared() {
				of = dev.PartOfGPU(dev.Use(s))
			}
			if !out.some || of < out.least {
				out.least = of
			}
			out.some = true
			out.parts = out.parts || far || !dev.WholeGPU()
			tooFar, taker := far && d.manyFar(), dev.TakesOfNode()
			out.known, out.far, out.taker = out.known || !tooFar && !taker, out.far || tooFar, out.taker || taker
		}
	}
	//archtest:any-order it asks whether there is one, and for the least
	for _, offered := range d.offered {
		look(&offered, false)
	}
	look(&d.far, true)
	d.met[s.Name] = out
	return out
}

// undecided is what the claims ask for that is not decided; "": nothing. Devices of which nothing is decided do not matter where others
// will do, unless all are wanted.
func (d *devices) undecided(a *convert.Asked) why.Feature {
	if a.Unknown != "" {
		return a.Unknown
	}
	for i := range a.Selections {
		s := &a.Selections[i]
		switch m := d.meets(s); {
		case m.known && !s.All:
		case m.far:
			return why.SharedDevices
		case m.taker:
			return why.NodeResources
		}
	}
	return ""
}

func (d *devices) isSelected(s *convert.Selection, dev *convert.OfferedDevice) bool {
	meant, err := d.isMeant(s, dev)
	return dev.For(s, meant, err).Matches
}

// isMeant says whether the selection's expressions are true of the device, whatever taints it has. The first that is not true, or fails,
// decides.
func (d *devices) isMeant(s *convert.Selection, dev *convert.OfferedDevice) (bool, error) {
	for _, e := range s.Expressions {
		if ok, err := d.selects(e, dev.Driver, dev.Device); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// learn takes note of what claims ask about.
func (d *devices) learn(a *convert.Asked) {
	for _, s := range a.Selections {
		if _, known := d.selections[s.Name]; !known {
			if len(d.selections) >= maxSelections {
				clear(d.selections)
				clear(d.attributes)
				clear(d.derived)
				d.crowded = true
				d.classMoved() // which forgets resources too
			}
			d.selections[s.Name], d.grown = s, true
		}
	}
	for _, rule := range a.Claims.Match {
		if !d.attributes[rule.Attribute] {
			d.attributes[rule.Attribute], d.grown = true, true
		}
	}
	//archtest:any-order each is entered by itself
	for name, expression := range a.Derived {
		if _, known := d.derived[name]; !known {
			d.derived[name], d.grown = expression, true
		}
	}
}

// derive is the values of attributes that requests derive for the device; nil for none. One whose expression fails it does not have.
func (d *devices) derive(dev *convert.OfferedDevice) (out map[string]string) {
	if d.derives == nil {
		return nil
	}
	//archtest:any-order each is entered by itself
	for name, expression := range d.derived {
		v, err := d.derives(expression, dev.Driver, dev.Device)
		if err != nil || v == nil {
			continue
		}
		if text := convert.AttributeText(v); text != "" {
			if out == nil {
				out = make(map[string]string)
			}
			out[name] = text
		}
	}
	return out
}

// gpusHeld counts the whole GPUs that the claim has, and, in thousandths, what its parts of GPUs are of one.
func (d *devices) gpusHeld(c *resourcev1.ResourceClaim) (whole, parts int64) {
	for _, r := range convert.Held(c) {
		id := convert.DeviceID(r.Driver, r.Pool, r.Device)
		switch dev := d.device(id); {
		case dev == nil:
		case r.ShareID != nil:
			share, _ := engine.ParseShare(dev.Share(r))
			parts += dev.PartOfGPU(share.Draws)
		case d.nodeOf(id) != everywhere && dev.WholeGPU():
			whole++
		default:
			parts += dev.OfGPU()
		}
	}
	return whole, parts
}

// gpusAsked counts the GPUs of requests that only whole GPUs match; and, in thousandths, what others come to at least. Of several options it
// is the one that is least, of those that any device matches: more would keep the pod off nodes where that can be had.
func (d *devices) gpusAsked(a *convert.Asked) (whole, parts int64) {
	met := make(map[string]meeting)
	for _, s := range a.Selections {
		met[s.Name] = d.meets(&s)
	}
	for _, r := range a.Claims.Requests {
		least, gpus := int64(-1), int64(-1)
		for _, o := range r.Options {
			is := met[o.Selection]
			if !is.some {
				continue
			}
			of, wholes := is.least*int64(o.Count), int64(0)
			if o.Admin {
				of = 0
			}
			if !is.parts && !o.Admin {
				wholes = int64(o.Count)
			}
			if least < 0 || of < least {
				least = of
			}
			if gpus < 0 || wholes < gpus {
				gpus = wholes
			}
		}
		if whole += max(0, gpus); gpus == 0 {
			parts += max(0, least)
		}
	}
	return whole, parts
}

// mayChange says whether what the claims come to depends on which devices there are: an option that none matches now may be the one that is
// had, once there are some.
func (d *devices) mayChange(a *convert.Asked) bool {
	return slices.ContainsFunc(a.Selections, func(s convert.Selection) bool { return !d.meets(&s).some }) ||
		slices.ContainsFunc(a.Claims.Requests, func(r engine.DeviceRequest) bool { return len(r.Options) > 1 })
}

// giveDevices gives the nodes and the pods again whose devices, or claims, changed. Pods whose claims are being seen to are left
// as they are until that has ended.
func (f *Feed) giveDevices() {
	d := f.devices
	if len(d.moved) > 0 {
		clear(d.holding)
		//archtest:any-order each claim by itself
		for key, c := range d.claims {
			d.holds(key, true)
			if slices.ContainsFunc(convert.Holds(c), func(id string) bool { return d.moved[poolOfDevice(id)] }) {
				for pod := range d.users[key] { // what it is charged follows from what its devices are
					d.pods[pod] = true
				}
			}
		}
		clear(d.moved)
		d.stale[everywhere] = true
	}
	for range 2 { // pods may ask about devices what was not asked before
		var again []*member
		for _, key := range sortedNames(d.pods) {
			if m := f.members.pods[key]; m != nil && f.storage.preparing[key] == nil && (m.given || !f.owners.awaited(m.raw)) {
				again = append(again, m)
			}
		}
		clear(d.pods)
		f.giveAgain(again)
	}
	if d.grown {
		//archtest:any-order it fills a set
		for node := range d.offered {
			d.stale[node] = true
		}
		d.grown, d.farMoved = false, d.farMoved || len(d.far.Devices) > 0
	}
	if d.stale[everywhere] {
		if taken := d.unplaced(everywhere); !maps.EqualFunc(taken, d.taken, slices.Equal) {
			d.taken, d.farMoved = taken, true
		}
		delete(d.stale, everywhere)
	}
	if d.farMoved {
		//archtest:any-order it fills a set
		for node := range f.nodes.given {
			d.stale[node] = true
		}
		d.farMoved = false
	}
	for _, name := range sortedNames(d.stale) {
		if f.nodes.given[name] != nil {
			f.giveNode(name)
		}
	}
	clear(d.stale)
}

// DeviceWant is the claims of one pod of a start, which are to get their devices, or to be reserved for it.
type DeviceWant struct {
	Pod, Node string
	UID       string   // the pod's
	Group     string   // the UID of its PodGroup; "": none
	Claims    []string // keys
	Shared    []string // keys of claims that get their devices with another pod of the start, and are to be reserved for this one too
	Devices   []string // that those of Claims without have to get, by DeviceID
	Attaching []string // keys of claims that are reserved for it already, and whose devices are still to be attached

	Extended *resourcev1.ResourceClaim                 // to be made for it; nil: none
	Mappings []corev1.ContainerExtendedResourceRequest // which container has which request of it
	Unmap    bool                                      // the pod names such a claim, and is to have none
}

// wantDevices notes which claims of a member are to be seen to before it is bound.
func (f *Feed) wantDevices(r *Reservation, at engine.Placement) {
	m := f.members.pods[at.Pod]
	if m == nil || f.devices.selects == nil {
		return
	}
	claims, _ := convert.ResourceClaims(m.pod)
	w := DeviceWant{Pod: at.Pod, UID: at.UID, Group: f.groupUID(m), Node: at.Node, Devices: at.Devices}
	if n := f.nodes.given[at.Node]; n != nil && len(n.ByClaims) > 0 {
		w.Extended, w.Mappings = convert.ExtendedClaim(m.pod, func(resource string) *resourcev1.DeviceClass {
			if !slices.Contains(n.ByClaims, resource) {
				return nil // the node has it by count
			}
			return f.classOf(resource)
		})
	}
	w.Unmap = w.Extended == nil && m.pod.Status.ExtendedResourceClaimStatus != nil
	for _, named := range claims {
		c := f.devices.claims[named.Key]
		if c == nil { // it went since the plan: whoever makes the allocation finds that out, and the pod is not bound without
			w.Claims = append(w.Claims, named.Key)
			continue
		}
		if resourceclaim.IsReservedForPod(m.pod, c, true) {
			if convert.Attached(c) != nil {
				w.Attaching = append(w.Attaching, named.Key)
			}
			continue
		}
		if first, _ := f.devices.firstOf(m, named.Key); first != m && c.Status.Allocation == nil {
			w.Shared = append(w.Shared, named.Key)
		} else {
			w.Claims = append(w.Claims, named.Key)
		}
	}
	if len(w.Claims)+len(w.Shared)+len(w.Attaching) > 0 || w.Extended != nil || w.Unmap {
		r.Devices = append(r.Devices, w)
	}
}

// Stranded are the claims of pods of ours that wait, and have waited for so long with devices that no other uses: a start of
// them was given up, or the process that began it is gone. They are to be given back, so that the next plan is free to choose; those that are not
// are told again after as long. next is when to ask again; zero: when something changes.
func (f *Feed) Stranded(patience time.Duration) (out []DeviceWant, next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, now := f.devices, f.timers.now()
	for _, key := range sortedNames(d.loose) {
		since := d.loose[key]
		if since.IsZero() {
			since = now
			d.loose[key] = now
		}
		if due := since.Add(patience); now.Before(due) {
			if next.IsZero() || due.Before(next) {
				next = due
			}
			continue
		}
		if f.attaching(d.claims[key]) {
			d.loose[key] = now // it is waited for, by the next plan of the pod
			continue
		}
		d.loose[key] = now
		if again := now.Add(patience); next.IsZero() || again.Before(next) {
			next = again
		}
		users := d.idleUsers(key)
		if slices.ContainsFunc(users, func(m *member) bool { return f.storage.preparing[m.key] != nil }) {
			continue
		}
		for _, m := range users {
			out = append(out, DeviceWant{Pod: m.key, UID: string(m.pod.UID), Group: f.groupUID(m), Claims: []string{key}})
		}
	}
	return out, next
}

// idleUsers are the pods that the claim, which has devices, is reserved for, where all of them are ours and wait; nil: there are others, or
// none. Where it is reserved for a PodGroup of which no member has a node, it is the first of those that wait.
func (d *devices) idleUsers(key string) []*member {
	c := d.claims[key]
	if c == nil || c.Status.Allocation == nil || len(c.Status.ReservedFor) == 0 {
		return nil
	}
	grouped := slices.ContainsFunc(c.Status.ReservedFor, ofGroup)
	waiting := make(map[types.UID]*member, len(d.users[key]))
	var first *member // of the group's
	//archtest:any-order each has its own UID, and the first by key is looked for
	for _, m := range d.users[key] {
		ours := grouped && reservedForGroup(m, c)
		switch {
		case m.bound() || !m.pays():
			if ours {
				return nil
			}
		case m.waiting():
			waiting[m.pod.UID] = m
			if ours && (first == nil || m.key < first.key) {
				first = m
			}
		}
	}
	var out []*member
	for _, r := range c.Status.ReservedFor {
		m := waiting[r.UID]
		if m == nil && ofGroup(r) {
			m = first
		}
		if m == nil {
			return nil
		}
		out = append(out, m)
	}
	return out
}

// ofGroup says whether the claim is reserved for something else than a pod.
func ofGroup(r resourcev1.ResourceClaimConsumerReference) bool { return r.Resource != "pods" }

// DeviceScene is what an allocation is made of.
type DeviceScene struct {
	Node    *corev1.Node
	Pod     *corev1.Pod
	Claims  []*resourcev1.ResourceClaim                             // of the want, in its order
	Shared  []*resourcev1.ResourceClaim                             // likewise
	Users   map[types.UID]resourcev1.ResourceClaimConsumerReference // by claim: what it is reserved for, the pod or its group
	Classes []*resourcev1.DeviceClass
	Slices  []*resourcev1.ResourceSlice // of the node, with no devices but those that are to be had
	Held    []*resourcev1.ResourceClaim // that have what is not to be had of these
}

// Scene returns what the devices of the want are allocated of; nil where something of it is gone.
func (f *Feed) Scene(w DeviceWant) *DeviceScene {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, n := f.members.pods[w.Pod], f.nodes.objects[w.Node]
	if m == nil || n == nil || string(m.pod.UID) != w.UID {
		return nil
	}
	out := &DeviceScene{Node: n, Pod: m.pod, Classes: slices.Collect(maps.Values(f.devices.classes))}
	out.Users = f.consumers(m)
	for _, key := range slices.Concat(w.Claims, w.Shared) {
		c := f.devices.claims[key]
		if c == nil || c.DeletionTimestamp != nil {
			return nil
		}
		if len(out.Claims) < len(w.Claims) {
			out.Claims = append(out.Claims, c)
		} else {
			out.Shared = append(out.Shared, c)
		}
	}
	looksOn := admins(out.Claims)
	for _, s := range slices.Concat(f.devices.tainted(w.Node), f.devices.tainted(everywhere)) {
		s = s.DeepCopy()
		s.Spec.Devices = slices.DeleteFunc(s.Spec.Devices, func(d resourcev1.Device) bool {
			return !looksOn && !planned(w.Devices, convert.DeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name))
		})
		if !looksOn {
			inPlanOrder(s, w.Devices)
		}
		out.Slices = append(out.Slices, s)
	}
	out.Held = f.devices.beside(w, looksOn)
	return out
}

// inPlanOrder puts the devices of the slice into the order of the plan, which is that of the requests. Upstream tries them in turn, and does not go on
// where those that it tried first keep a request of all devices from being met.
func inPlanOrder(s *resourcev1.ResourceSlice, devices []string) {
	at := func(d resourcev1.Device) int {
		id := convert.DeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name)
		if i := slices.IndexFunc(devices, func(text string) bool { return engine.DeviceOf(text) == id }); i >= 0 {
			return i
		}
		return len(devices)
	}
	slices.SortStableFunc(s.Spec.Devices, func(a, b resourcev1.Device) int { return cmp.Compare(at(a), at(b)) })
}

// planned says whether the device, or a share of it, is among those of a plan.
func planned(devices []string, id string) bool {
	return slices.ContainsFunc(devices, func(text string) bool { return engine.DeviceOf(text) == id })
}

// beside are claims that have all that the plan does not give: of shared devices the rest of their capacity. A claim that looks on sees all
// devices, and wants capacity of them that the plan does not name: beside it is what others have, and whole devices that they may be given.
func (d *devices) beside(w DeviceWant, looksOn bool) (out []*resourcev1.ResourceClaim) {
	rest := &resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{}}}
	add := func(dev *convert.OfferedDevice) *resourcev1.DeviceRequestAllocationResult {
		_, pool, _ := strings.Cut(dev.Pool, "/")
		list := &rest.Status.Allocation.Devices.Results
		*list = append(*list, resourcev1.DeviceRequestAllocationResult{Driver: dev.Driver, Pool: pool, Device: dev.Name})
		return &(*list)[len(*list)-1]
	}
	var draws []engine.Draw
	for i, text := range w.Devices {
		share, is := engine.ParseShare(text)
		dev := d.device(share.Device)
		if looksOn || !is || dev == nil || planned(w.Devices[:i], share.Device) {
			continue
		}
		draws = draws[:0]
		for _, other := range w.Devices[i:] {
			if more, is := engine.ParseShare(other); is && more.Device == share.Device {
				draws = append(draws, more.Draws...)
			}
		}
		r := add(dev)
		r.ShareID, r.ConsumedCapacity = new(types.UID("others")), dev.Beside(draws)
	}
	if looksOn {
		for _, at := range []string{w.Node, everywhere} {
			for _, key := range sortedNames(d.holding[at]) {
				out = append(out, d.claims[key])
			}
		}
		for _, offered := range []convert.Offered{d.offered[w.Node], d.far} {
			for i := range offered.Devices {
				if dev := &offered.Devices[i]; !planned(w.Devices, dev.ID) && !dev.Draws() && !dev.Shared() {
					add(dev)
				}
			}
		}
	}
	return append(out, rest)
}

// admins says whether a claim looks on, and so has devices that the plan does not name.
func admins(claims []*resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(claims, func(c *resourcev1.ResourceClaim) bool {
		return slices.ContainsFunc(c.Spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool {
			return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
		})
	})
}
