package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// partsReferee judges who has which device, from what the API server says: kubelets write on pods which devices they gave, and claims
// have theirs in their status. It shares no code with the engine or the fleet's device managers.
type partsReferee struct {
	pods   map[types.UID]*corev1.Pod               // on nodes, and not over
	claims map[types.UID]*resourcev1.ResourceClaim // that have devices
	offers map[string]resourcev1.Device            // by device; see deviceKey
	stock  map[string]resource.Quantity            // of the counters that devices share, by counterKey
	cards  map[string]hami.Device                  // that HAMi's plugin has registered, by UUID
	judged map[string]int                          // by kind
}

func newPartsReferee() *partsReferee {
	return &partsReferee{
		pods: make(map[types.UID]*corev1.Pod), claims: make(map[types.UID]*resourcev1.ResourceClaim),
		offers: make(map[string]resourcev1.Device), stock: make(map[string]resource.Quantity),
		cards: make(map[string]hami.Device), judged: make(map[string]int),
	}
}

func deviceKey(driver, pool, device string) string { return driver + "/" + pool + "/" + device }

// hardware takes in what nodes and drivers offer, in place of what they offered before.
func (r *partsReferee) hardware(nodes []corev1.Node, slices []resourcev1.ResourceSlice) error {
	clear(r.offers)
	clear(r.stock)
	clear(r.cards)
	for i := range slices {
		s := &slices[i].Spec
		for _, d := range s.Devices {
			r.offers[deviceKey(s.Driver, s.Pool.Name, d.Name)] = d
		}
		for _, set := range s.SharedCounters {
			for name, c := range set.Counters {
				r.stock[deviceKey(s.Driver, s.Pool.Name, set.Name)+"/"+name] = c.Value
			}
		}
	}
	for i := range nodes {
		text := nodes[i].Annotations[hami.KeyRegister]
		if text == "" {
			continue
		}
		cards, err := hami.Registered(text)
		if err != nil {
			return fmt.Errorf("%s: %w", nodes[i].Name, err)
		}
		for _, c := range cards {
			r.cards[c.ID] = c
		}
	}
	return nil
}

// tookPod takes in a change of a pod and says whether what it has is to be judged.
func (r *partsReferee) tookPod(p *corev1.Pod, deleted bool) bool {
	if deleted || over(p) || p.Spec.NodeName == "" {
		delete(r.pods, p.UID)
		return false
	}
	old := r.pods[p.UID]
	r.pods[p.UID] = p
	if p.Status.Phase == corev1.PodRunning && (old == nil || old.Status.Phase != corev1.PodRunning) {
		r.judged[p.Labels[labelKind]]++
	}
	return old == nil || old.Annotations[v1alpha1.KeyGPUs] != p.Annotations[v1alpha1.KeyGPUs] || old.Status.Phase != p.Status.Phase
}

// tookClaim takes in a change of a claim and says whether what it has is to be judged: an allocation is never changed, only given back.
func (r *partsReferee) tookClaim(c *resourcev1.ResourceClaim, deleted bool) bool {
	if deleted || c.Status.Allocation == nil {
		delete(r.claims, c.UID)
		return false
	}
	old := r.claims[c.UID]
	r.claims[c.UID] = c
	if old == nil {
		r.judged["claims"]++
	}
	return old == nil
}

// ofPod is what is wrong with what a pod has.
func (r *partsReferee) ofPod(p *corev1.Pod) []string {
	return said(r.number(p), r.alone(p), r.granted(p), r.fractions(p))
}

// ofClaim is what is wrong with what a claim has.
func (r *partsReferee) ofClaim(c *resourcev1.ResourceClaim) []string {
	return said(r.devices(c), r.counters(c))
}

func said(errs ...error) (out []string) {
	for _, err := range errs {
		if err != nil {
			out = append(out, err.Error())
		}
	}
	return out
}

// inTurns says whether several pods have a card of this pod's at a time: those of HAMi's plugin, of Berth's fractions, and of claims, which
// are judged by other rules.
func inTurns(p *corev1.Pod) bool {
	return p.Annotations[hami.KeyAllocated] != "" || p.Annotations[v1alpha1.KeyGPUFraction] != "" || hasClaims(p)
}

func hasClaims(p *corev1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 || p.Status.ExtendedResourceClaimStatus != nil
}

// number compares what a pod asked a device plugin for with what it was given.
func (r *partsReferee) number(p *corev1.Pod) error {
	want, _ := strconv.Atoi(p.Annotations[keyDevices])
	if got := len(heldBy(p)); p.Status.Phase == corev1.PodRunning && got != want {
		return fmt.Errorf("it asked for %d devices and has %d", want, got)
	}
	return nil
}

// alone finds a device of a plugin that another pod has too.
func (r *partsReferee) alone(p *corev1.Pod) error {
	if inTurns(p) {
		return nil
	}
	mine := heldBy(p)
	for _, o := range r.on(p) {
		for _, id := range heldBy(o) {
			if o.UID != p.UID && slices.Contains(mine, id) {
				return fmt.Errorf("%s is under %s too", id, o.Name)
			}
		}
	}
	return nil
}

// on are the pods of the pod's node, itself among them.
func (r *partsReferee) on(p *corev1.Pod) (out []*corev1.Pod) {
	for _, o := range r.pods {
		if o.Spec.NodeName == p.Spec.NodeName {
			out = append(out, o)
		}
	}
	return out
}

// granted adds up what HAMi's pods have of each card of the pod's node.
func (r *partsReferee) granted(p *corev1.Pod) error {
	if p.Annotations[hami.KeyAllocated] == "" {
		return nil
	}
	memory, cores, pods := make(map[string]int64), make(map[string]int64), make(map[string]int)
	for _, o := range r.on(p) {
		text := o.Annotations[hami.KeyAllocated]
		grants, ok := hami.Grants(text)
		if text != "" && !ok {
			return fmt.Errorf("what %s was given cannot be read: %q", o.Name, text)
		}
		for _, container := range grants {
			for _, g := range container {
				memory[g.UUID] += g.Memory
				cores[g.UUID] += g.Cores
				pods[g.UUID]++
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(pods)) {
		card, known := r.cards[id]
		if !known || memory[id] > int64(card.Memory) || cores[id] > int64(card.Cores) || pods[id] > int(card.Count) {
			return fmt.Errorf("card %s (registered: %t) has %d pods with %d MiB and %d %% of the cores; it has %d, %d and %d",
				id, known, pods[id], memory[id], cores[id], card.Count, card.Memory, card.Cores)
		}
	}
	return nil
}

// fractions adds up the fractions of each card of the pod's node, in thousandths.
func (r *partsReferee) fractions(p *corev1.Pod) error {
	sums := make(map[string]int)
	for _, o := range r.on(p) {
		part, err := strconv.ParseFloat(o.Annotations[v1alpha1.KeyGPUFraction], 64)
		if err != nil {
			continue // not such a pod
		}
		for _, id := range heldBy(o) {
			sums[id] += int(part*1000 + 0.5)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		if sums[id] > 1000 {
			return fmt.Errorf("%d thousandths of card %s are given", sums[id], id)
		}
	}
	return nil
}

// devices finds devices of a claim that there are not, that another claim has too, or of which more is given than there is.
func (r *partsReferee) devices(c *resourcev1.ResourceClaim) error {
	for _, got := range c.Status.Allocation.Devices.Results {
		id := deviceKey(got.Driver, got.Pool, got.Device)
		offer, there := r.offers[id]
		if !there {
			return fmt.Errorf("%s is in no slice", id)
		}
		holders, consumed := r.holding(id)
		if several := offer.AllowMultipleAllocations != nil && *offer.AllowMultipleAllocations; !several && holders > 1 {
			return fmt.Errorf("%s is given %d times", id, holders)
		}
		for name, sum := range consumed {
			if has := offer.Capacity[name].Value; sum.Cmp(has) > 0 {
				return fmt.Errorf("%s of %s of %s is given, and there is %s", sum.String(), name, id, has.String())
			}
		}
	}
	return nil
}

// holding says how often a device is given, and how much of it.
func (r *partsReferee) holding(id string) (times int, consumed map[resourcev1.QualifiedName]resource.Quantity) {
	consumed = make(map[resourcev1.QualifiedName]resource.Quantity)
	for _, c := range r.claims {
		for _, got := range c.Status.Allocation.Devices.Results {
			if deviceKey(got.Driver, got.Pool, got.Device) != id {
				continue
			}
			times++
			for name, q := range got.ConsumedCapacity {
				sum := consumed[name]
				sum.Add(q)
				consumed[name] = sum
			}
		}
	}
	return times, consumed
}

// counters adds up what the devices of all claims take of the counters that they share.
func (r *partsReferee) counters(c *resourcev1.ResourceClaim) error {
	used := make(map[string]resource.Quantity)
	for _, o := range r.claims {
		for _, got := range o.Status.Allocation.Devices.Results {
			for _, takes := range r.offers[deviceKey(got.Driver, got.Pool, got.Device)].ConsumesCounters {
				for name, counter := range takes.Counters {
					id := deviceKey(got.Driver, got.Pool, takes.CounterSet) + "/" + name
					sum := used[id]
					sum.Add(counter.Value)
					used[id] = sum
				}
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(used)) {
		if sum, has := used[id], r.stock[id]; sum.Cmp(has) > 0 {
			return fmt.Errorf("%s of %s are given, and there are %s", sum.String(), id, has.String())
		}
	}
	return nil
}

// idle are the claims that have devices for nobody, and the pods whose claims are not theirs. Between two writes of a release there may
// be some, and not for long.
func (r *partsReferee) idle() (wrong []string) {
	users := make(map[types.UID]bool)
	for _, c := range r.claims {
		if len(c.Status.ReservedFor) == 0 {
			wrong = append(wrong, fmt.Sprintf("claim %s has devices and no user", c.Name))
		}
		for _, u := range c.Status.ReservedFor {
			users[u.UID] = true
			if r.pods[u.UID] == nil {
				wrong = append(wrong, fmt.Sprintf("claim %s is kept for %s, which is not there", c.Name, u.Name))
			}
		}
	}
	for _, p := range r.pods {
		if hasClaims(p) && !users[p.UID] {
			wrong = append(wrong, fmt.Sprintf("no claim is kept for pod %s, which is on %s", p.Name, p.Spec.NodeName))
		}
	}
	slices.Sort(wrong)
	return wrong
}
