package cluster

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster/internal/inventory"
	"github.com/berth-dev/berth/kube/convert"
)

// Selects evaluates an expression about a device of a driver.
type Selects = inventory.Selects

// Derives evaluates an expression that makes an attribute of a device.
type Derives = inventory.Derives

// devices is what resource claims depend on: which devices there are is the inventory's; who claims and holds them, and who is to be
// given again for it, is noted here.
type devices struct {
	*inventory.Inventory
	gpu string // the resource under which whole GPUs count

	claims  map[string]*resourcev1.ResourceClaim // by key
	classes map[string]*resourcev1.DeviceClass
	users   map[string]map[string]*member // pods of any scheduler, by claim, then by key
	extra   map[types.UID]string          // claims that stand for extended resources, by pod
	loose   map[string]time.Time          // claims with idleUsers, since when as far as was noticed

	holding map[string]map[string]bool // by node: the claims that hold devices of it
	taken   inventory.Taken            // of devices that several nodes reach
	// underway are, by node and then by UID of a pod, the claims of starts that are being seen to. gone says of one that its pod is not there
	// any more.
	underway map[string]map[string]*DeviceWant
	gone     func(*DeviceWant) bool

	undone map[string]bool // keys of pods for which it matters that other devices come or go: nothing is decided about those that they want, or there are none
	asking map[string]bool // keys of pods that wait and ask for devices, by claims or as extended resources
	pods   map[string]bool // keys of pods to give again
	stale  map[string]bool // names of nodes to give again
	// The devices that several nodes reach changed: all nodes are to be given again.
	farMoved bool
}

func newDevices(selects Selects, derives Derives, gpu string) *devices {
	return &devices{
		Inventory: inventory.New(selects, derives, gpu), gpu: gpu,
		claims: make(map[string]*resourcev1.ResourceClaim), classes: make(map[string]*resourcev1.DeviceClass), users: make(map[string]map[string]*member),
		extra: make(map[types.UID]string), loose: make(map[string]time.Time), holding: make(map[string]map[string]bool), underway: make(map[string]map[string]*DeviceWant),
		undone: make(map[string]bool), asking: make(map[string]bool), pods: make(map[string]bool), stale: make(map[string]bool),
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
			if node := d.NodeOf(id); node != "" {
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
		if node := d.NodeOf(id); node != "" && does {
			insert(d.holding, node, key, true)
		} else {
			cut(d.holding, node, key)
		}
	}
}

// setResourceClaim takes in a resource claim.
func (f *Feed) setResourceClaim(c *resourcev1.ResourceClaim) {
	key := keyOf(c)
	if outdated(f.devices.claims[key], c) {
		return
	}
	f.standsFor(key, c, true)
	f.devices.setClaim(key, c)
	//archtest:any-order each has a signal of its own
	for pod := range f.devices.users[key] {
		if r := f.preparing[pod]; r != nil {
			r.Poke()
		}
	}
	f.out.wake()
}

// removeResourceClaim takes a resource claim away.
func (f *Feed) removeResourceClaim(c *resourcev1.ResourceClaim) {
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

// holdersMoved has the pods looked at whose claims have devices of the node: what they are charged depends on what these are.
func (d *devices) holdersMoved(node string) {
	//archtest:any-order it fills a set
	for claim := range d.holding[node] {
		for key := range d.users[claim] {
			d.pods[key] = true
		}
	}
}

// lookAtAll has every claim looked at, and every pod that asks for devices.
func (d *devices) lookAtAll() {
	//archtest:any-order it fills a set
	for _, pods := range d.users {
		for key := range pods {
			d.pods[key] = true
		}
	}
	maps.Copy(d.pods, d.asking)
}

// classMoved has all of them looked at after a device class came, changed or went: few do.
func (d *devices) classMoved() {
	d.Forget()
	d.lookAtAll()
}

// onNode adds to the node what its devices are, and those that it reaches besides.
func (d *devices) onNode(n *engine.Node, object *corev1.Node) {
	d.Offer(n, object, d.unplaced(n.Name), d.taken)
}

// InvalidPools is on how many nodes there are pools of devices that contradict themselves, and the first of these pools by name with what is
// wrong with it.
func (f *Feed) InvalidPools() (nodes int, first string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pools, reaches := f.devices.Invalid()
	if len(pools) == 0 {
		return 0, ""
	}
	least := slices.MinFunc(pools, func(a, b convert.InvalidPool) int { return strings.Compare(a.Name, b.Name) })
	//archtest:any-order they are counted
	for _, n := range f.nodes.objects {
		if reaches(n) {
			nodes++
		}
	}
	return nodes, least.Name + ": " + least.Why
}

// unplaced are, by device of the node, what claims have of it of which no pod is on a node: the whole, or shares. What a start gives to claims
// of a pod that is gone meanwhile counts too: whether they have it by now is known when the start is over.
func (d *devices) unplaced(node string) inventory.Taken {
	out := make(inventory.Taken)
	add := func(has []string) {
		for _, text := range has {
			if id := engine.DeviceOf(text); d.NodeOf(id) == node {
				out[id] = append(out[id], text)
			}
		}
	}
	for _, key := range sortedNames(d.holding[node]) {
		if !d.inUse(key) {
			add(d.Held(d.claims[key]))
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
		for _, text := range d.Held(c) {
			if i := slices.Index(left, text); i >= 0 {
				left = slices.Delete(left, i, i+1)
			}
		}
	}
	return left
}

// places are the nodes that the devices of the pod's plan are of, Everywhere among them where one is of none.
func (d *devices) places(w *DeviceWant) []string {
	if slices.ContainsFunc(w.Devices, func(text string) bool { return d.NodeOf(engine.DeviceOf(text)) == inventory.Everywhere }) {
		return []string{w.Node, inventory.Everywhere}
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
		for _, at := range []string{w.Node, inventory.Everywhere} {
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

// giveDevices gives the nodes and the pods again whose devices, or claims, changed. Pods whose claims are being seen to are left
// as they are until that has ended.
func (f *Feed) giveDevices() {
	d := f.devices
	for range 2 { // pods may ask about devices what was not asked before
		d.follow()
		var again []*member
		for _, key := range sortedNames(d.pods) {
			if m := f.members.pods[key]; m != nil && f.preparing[key] == nil && (m.given || !f.owners.awaited(m.raw)) {
				again = append(again, m)
			}
		}
		clear(d.pods)
		f.giveAgain(again)
	}
	d.follow()
	if d.stale[inventory.Everywhere] {
		if taken := d.unplaced(inventory.Everywhere); !maps.EqualFunc(taken, d.taken, slices.Equal) {
			d.taken, d.farMoved = taken, true
		}
		delete(d.stale, inventory.Everywhere)
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

// follow finds what depends on devices that changed, and on what is asked about them: pods and nodes to give again.
func (d *devices) follow() {
	changed := d.Take()
	//archtest:any-order it fills sets
	for node := range changed.Read {
		maps.Copy(d.pods, d.undone)
		d.holdersMoved(node)
		d.stale[node] = true
	}
	if len(changed.Moved) > 0 {
		clear(d.holding)
		//archtest:any-order each claim by itself
		for key, c := range d.claims {
			d.holds(key, true)
			if slices.ContainsFunc(convert.Holds(c), func(id string) bool { return changed.Moved[inventory.PoolOf(id)] }) {
				for pod := range d.users[key] { // what it is charged follows from what its devices are
					d.pods[pod] = true
				}
			}
		}
		d.stale[inventory.Everywhere] = true
	}
	if changed.Forgotten {
		d.lookAtAll()
	}
	if changed.Grown {
		for _, node := range d.Nodes() {
			d.stale[node] = true
		}
	}
	d.farMoved = d.farMoved || changed.Far || changed.Grown && d.HasFar()
}
