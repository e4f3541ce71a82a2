package cluster

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster/internal/rules"
	"github.com/berth-dev/berth/kube/cluster/internal/tenancy"
	"github.com/berth-dev/berth/kube/cluster/internal/tiers"
	"github.com/berth-dev/berth/kube/cluster/internal/volumes"
	"github.com/berth-dev/berth/kube/convert"
)

// Feed turns what watches say into changes for the engine. It keeps, by subject, what a change of one object needs of
// others; doc.go says which subject owns what. Watches call it from their own goroutines: one lock guards all of it, and
// changes are put into the sink under that lock, so that their order is that of their versions.
type Feed struct {
	opts   convert.Options
	listen Listener
	out    *output
	// attachFor is how long devices may take to be attached.
	attachFor time.Duration

	mu         sync.Mutex
	nodes      *nodes
	models     *models
	members    *members
	owners     *owners
	gangs      *gangs
	volumes    *volumes.Volumes
	preparing  map[string]*Reservation // starts whose claims are being seen to, by pod
	tenancy    *tenancy.Tenancy
	admissions admissions
	budgets    *budgets
	bookings   *bookings
	arrivals   *arrivals
	rules      *rules.Rules
	extended   *extended
	devices    *devices
	runtimes   *runtimes
	refusals   *refusals
	timers     timers
	foreign    *foreign
	tiers      *tiers.Tiers
	made       *made
	expected   *expected
	templates  *templates
	checked    *checked
	whatIf     *whatIf // of a Model; nil: this is the live scheduler's
}

// Options configure a Feed. All of it but Levels and AttachFor is required.
type Options struct {
	Convert  convert.Options
	Levels   []engine.Level // of the topology
	Sink     Sink
	Listener Listener
	// Selects evaluates selectors of devices; nil: pods with resource claims wait as unsupported.
	Selects Selects
	// Derives evaluates attributes that requests derive; nil: no device has such.
	Derives Derives
	// AttachFor is how long devices may take to be attached; 0: AttachFor.
	AttachFor time.Duration
	// Now is the clock: the feed has no other.
	Now func() time.Time
}

// Object is a pod, a PodGroup, a CompositePodGroup or a node.
type Object interface {
	metav1.Object
	runtime.Object
}

// Listener hears what the feed finds worth telling people. It is called with the feed's lock held, must not call back,
// and returns at once.
type Listener interface {
	// Forget ends what was said of an object that is gone, or of a pod that has a node.
	Forget(types.UID)
	// NotHonoured lists what the object asks for and Berth does not do. It is called once for an object, but for groups below a
	// CompositePodGroup whenever their gang is described.
	NotHonoured(o Object, what []string)
	// Counted says which pods of a workload controller's object start together, and where that is said. It is called once for each
	// sentence.
	Counted(o Object, sentence string)
	// ClaimsMissing says what keeps the pod from the engine.
	ClaimsMissing(p *corev1.Pod, what []string)
	// Admitted says that the terms of a pod that is on a node are to be written down.
	Admitted(p *corev1.Pod)
	// Begun says that the minimum of the PodGroup or CompositePodGroup has its nodes.
	Begun(o Object)
	// UsageChanged says that what the workloads of queues hold, or ask for, may have changed.
	UsageChanged()
	// AccessChanged says that which queues namespaces may use, or what they say of it, may have changed.
	AccessChanged()
}

// New returns the feed of an empty cluster.
func New(o Options) *Feed {
	f := &Feed{opts: o.Convert, listen: o.Listener, out: &output{sink: o.Sink}, nodes: newNodes(), models: newModels(o.Convert.GPUResource()), members: newMembers(), owners: newOwners(o.Now), admissions: newAdmissions()}
	f.timers.now = o.Now
	f.attachFor = cmp.Or(o.AttachFor, AttachFor)
	f.foreign = newForeign()
	f.tiers = tiers.New(o.Levels)
	f.made = newMade()
	f.expected = newExpected()
	f.templates = newTemplates()
	f.checked = newChecked(f.out)
	f.tenancy = tenancy.New(cmp.Or(o.Convert.GPU, DefaultGPU), o.Listener)
	f.gangs = newGangs(f.out, f.members, f.owners, f.tenancy)
	f.gangs.checked = f.checked
	f.volumes = volumes.New(volumes.Options{Nodes: f.nodes, Evictable: f.members.evictable, Wake: f.out.wake})
	f.preparing = make(map[string]*Reservation)
	f.budgets = newBudgets(f.out)
	f.extended = newExtended()
	f.devices = newDevices(o.Selects, o.Derives, o.Convert.GPUResource())
	f.devices.gone = func(w *DeviceWant) bool {
		m := f.members.pods[w.Pod]
		return m == nil || string(m.pod.UID) != w.UID
	}
	f.rules = rules.New(around{f.tenancy, f.owners})
	f.opts.Around = f.rules.Around()
	f.bookings = &bookings{out: f.out}
	f.arrivals = newArrivals(f.out, f.nodes, f.members, o.Now)
	f.runtimes = newRuntimes(f.out, o.Now)
	f.refusals = newRefusals(f.out, f.members, o.Now)
	return f
}

// Settle puts into the sink what follows from several changes at once: the cycle calls it before it takes them. What
// another queue pays for, what other disruption budgets cover, and what rules between pods mean now, is given again, nodes are booked, gangs are described
// again, pods whose volumes changed given again, and terms decided. It returns when it has something to do though nothing
// changes; zero: never.
func (f *Feed) Settle() (again time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timers.run()
	f.reread()
	f.survey()
	f.expectPods()
	f.release()
	f.recharge()
	f.revoke()
	f.cover()
	f.giveRules()
	f.recountVolumes()
	f.giveExtended()
	f.giveDevices()
	f.bookings.give(f.tenancy, f.nodes)
	f.arrivals.give()
	for _, key := range slices.Sorted(maps.Keys(f.gangs.redo)) {
		f.uproot(key)
	}
	for _, key := range slices.Sorted(maps.Keys(f.gangs.redo)) {
		f.disown(key)
		f.agree(key)
		f.gangs.describe(key)
		f.tellOverruled(key)
		f.admissions.look[key] = true
	}
	clear(f.gangs.redo)
	f.recheck()
	f.admit()
	return f.timers.next()
}

// Forget is called now and then with how many objects were taken away since the engine last forgot them. It answers the
// resource version up to which nothing more can come, 0 for not now; what the feed gives from then on is newer.
func (f *Feed) Forget(settled func(gone int) uint64) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := settled(f.out.gone)
	if v != 0 {
		f.out.gone = 0
		f.out.saw(v)
	}
	return v
}

// Follow says that another scheduler leads, or that this one does.
func (f *Feed) Follow(does bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admissions.follows = does
}

// Repeat tells the listener again what was found worth telling before it listened: of everything that waits.
func (f *Feed) Repeat() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.volumes.AllAgain() // claims that keep pods back
	for _, key := range slices.Sorted(maps.Keys(f.members.pods)) {
		if m := f.members.pods[key]; m.ours && m.waiting() {
			f.listen.NotHonoured(m.pod, f.unheeded(m))
		}
		f.writeDown(f.members.pods[key])
	}
	for _, key := range slices.Sorted(maps.Keys(f.gangs.groups)) {
		f.begun(key)
	}
	for _, key := range slices.Sorted(maps.Keys(f.gangs.forest.composites)) {
		f.begunAbove(key)
	}
	f.foreign.repeat(f.listen)
	for _, name := range sortedNames(f.nodes.objects) {
		f.tellTopology(f.nodes.objects[name])
	}
}

// News returns the workloads whose pods changed since it was last called.
func (f *Feed) News() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh := f.members.fresh
	f.members.fresh = make(map[string]bool)
	return fresh
}
