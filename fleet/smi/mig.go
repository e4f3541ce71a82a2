package smi

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/gpu"
)

// Exit codes of commands that change a GPU.
const (
	exitInUse        = 19
	exitInsufficient = 23
	exitPermission   = 4
)

// mig is the subcommand for MIG: profiles, instances, and changes to them where the host allows it.
func (r *run) mig(args []string) *failure {
	o, err := subOptions(args, migOptions)
	if err != nil {
		return err
	}
	if len(args) == 0 || o.has("-h") {
		r.print(migUsage)
		return nil
	}
	if r.host.Driver.Version == "" {
		return noDriver()
	}
	gpus, err := r.views(o.ids())
	if err != nil {
		return err
	}
	gpus = slices.DeleteFunc(gpus, func(v view) bool { return !v.Model.MIG })
	if len(gpus) == 0 {
		return &failure{"No MIG-supported devices found.\n", exitNotFound}
	}
	switch {
	case o.has("-lgip"):
		r.print(profileTable(gpus))
		return nil
	case o.has("-lgipp"):
		r.print(placementList(gpus))
		return nil
	}
	return r.instances(o, gpus)
}

var migOptions = spelling{
	"-h": {"-h", false}, "--help": {"-h", false},
	"-i": {"-i", true}, "--id": {"-i", true},
	"-gi": {"-gi", true}, "--gpu-instance-id": {"-gi", true},
	"-lgip": {"-lgip", false}, "--list-gpu-instance-profiles": {"-lgip", false},
	"-lgipp": {"-lgipp", false}, "--list-gpu-instance-possible-placements": {"-lgipp", false},
	"-lgi": {"-lgi", false}, "--list-gpu-instances": {"-lgi", false},
	"-lcip": {"-lcip", false}, "--list-compute-instance-profiles": {"-lcip", false},
	"-lci": {"-lci", false}, "--list-compute-instances": {"-lci", false},
	"-cgi": {"-cgi", true}, "--create-gpu-instance": {"-cgi", true},
	"-C": {"-C", false}, "--default-compute-instance": {"-C", false},
	"-cci": {"-cci", false}, "--create-compute-instance": {"-cci", false},
	"-dgi": {"-dgi", false}, "--destroy-gpu-instance": {"-dgi", false},
	"-dci": {"-dci", false}, "--destroy-compute-instance": {"-dci", false},
}

// instances is what the subcommand does with GPUs in MIG mode.
func (r *run) instances(o subcommand, gpus []view) *failure {
	gpus = slices.DeleteFunc(gpus, func(v view) bool { return !v.MIGEnabled })
	if len(gpus) == 0 {
		return &failure{"No MIG-enabled devices found.\n", exitNotFound}
	}
	if o.has("-cgi") {
		return r.createInstances(o, gpus)
	}
	found := 0
	for i := range gpus {
		gpus[i].Parts = slices.DeleteFunc(slices.Clone(gpus[i].Parts), func(p gpu.Part) bool {
			return o.has("-gi") && !slices.Contains(splitList(o["-gi"]), strconv.Itoa(gpus[i].GPUInstance(p.Instance)))
		})
		found += len(gpus[i].Parts)
	}
	if found == 0 {
		return &failure{"No GPU instances found: Not Found\n", exitNotFound}
	}
	switch {
	case o.has("-lgi"):
		r.print(instanceTable(gpus))
	case o.has("-lcip"):
		r.print(computeProfileTable(gpus))
	case o.has("-lci"):
		return r.listCompute(gpus)
	case o.has("-cci"):
		return r.eachPart(gpus, "create compute instance", "compute instances", r.createCompute)
	case o.has("-dci"):
		return r.eachPart(gpus, "destroy compute instance", "compute instances", r.destroyCompute)
	case o.has("-dgi"):
		return r.eachPart(gpus, "destroy GPU instance", "GPU instances", r.destroyInstance)
	default:
		r.print(migUsage)
	}
	return nil
}

// parts are the GPU's instances in the order of its profiles, then of their places.
func (v view) parts() []gpu.Part {
	out := slices.Clone(v.Parts)
	rank := func(p gpu.Part) int {
		return slices.IndexFunc(v.Model.Profiles(), func(q gpu.Profile) bool { return q.ID == p.Profile.ID })
	}
	slices.SortFunc(out, func(a, b gpu.Part) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return a.Start - b.Start
	})
	return out
}

// list is the instances alone.
func (v view) list() []gpu.Instance {
	var out []gpu.Instance
	for _, p := range v.Parts {
		out = append(out, p.Instance)
	}
	return out
}

func profileTable(gpus []view) string {
	const rule = "+-------------------------------------------------------------------------------+\n"
	var b strings.Builder
	b.WriteString(rule + "| GPU instance profiles:                                                        |\n" +
		"| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |\n" +
		"|                                Free/Total   GiB              CE    JPEG  OFA  |\n" +
		"|===============================================================================|\n")
	for _, v := range gpus {
		for _, p := range v.Model.Profiles() {
			e := p.Engines
			fmt.Fprintf(&b, "|%4d  %-19s%3d     %d/%d        %-11sNo     %-7d%-6d%d   |\n", v.shown, "MIG "+p.Name, p.ID,
				v.Model.Room(v.list(), p), p.Max, fmt.Sprintf("%.2f", float64(p.MemoryMiB)/1024), p.SMs, e.Decoder, e.Encoder)
			fmt.Fprintf(&b, "|%63s%-6d%-6d%d   |\n%s", "", e.Copy, e.JPEG, e.OFA, rule)
		}
	}
	return b.String()
}

func placementList(gpus []view) string {
	var b strings.Builder
	for _, v := range gpus {
		for _, p := range v.Model.Profiles() {
			word := "Placements:"
			if len(p.Starts) == 1 {
				word = "Placement :"
			}
			starts := strings.ReplaceAll(strings.Trim(fmt.Sprint(p.Starts), "[]"), " ", ",")
			fmt.Fprintf(&b, "GPU %2d Profile ID %2d %s {%s}:%d\n", v.shown, p.ID, word, starts, p.Size)
		}
	}
	return b.String()
}

func instanceTable(gpus []view) string {
	const rule = "+---------------------------------------------------------+\n"
	var b strings.Builder
	b.WriteString(rule + "| GPU instances:                                          |\n" +
		"| GPU   Name               Profile  Instance   Placement  |\n" +
		"|                            ID       ID       Start:Size |\n" +
		"|=========================================================|\n")
	for _, v := range gpus {
		for _, p := range v.parts() {
			fmt.Fprintf(&b, "|%4d  %-19s%5d%9d%13s     |\n%s", v.shown, "MIG "+p.Profile.Name, p.Profile.ID, v.GPUInstance(p.Instance),
				fmt.Sprintf("%d:%d", p.Start, p.Profile.Size), rule)
		}
	}
	return b.String()
}

func (r *run) listCompute(gpus []view) *failure {
	const rule = "+--------------------------------------------------------------------+\n"
	var b strings.Builder
	b.WriteString(rule + "| Compute instances:                                                 |\n" +
		"| GPU     GPU       Name             Profile   Instance   Placement  |\n" +
		"|       Instance                       ID        ID       Start:Size |\n" +
		"|         ID                                                         |\n" +
		"|====================================================================|\n")
	rows := 0
	for _, v := range gpus {
		for _, p := range v.parts() {
			if !p.Compute {
				continue
			}
			rows++
			fmt.Fprintf(&b, "|%4d%7d       %-21s%d%10d%13s     |\n%s", v.shown, v.GPUInstance(p.Instance), "MIG "+bare(p.Profile), computeID(p.Profile), 0,
				fmt.Sprintf("0:%d", p.Profile.Size), rule)
		}
	}
	if rows == 0 {
		return &failure{"No compute instances found: Not Found\n", exitNotFound}
	}
	r.print(b.String())
	return nil
}

// bare is the profile's name without what it says of engines, as compute instances and MIG devices have it.
func bare(p gpu.Profile) string {
	name, _, _ := strings.Cut(p.Name, "+")
	return name
}

// computeID is the number of the compute instance that takes all of a GPU instance.
func computeID(p gpu.Profile) int {
	if p.Slices == 1 && p.Size > 1 {
		return 7
	}
	return map[int]int{1: 0, 2: 1, 3: 2, 4: 3, 7: 4}[p.Slices]
}

// computeProfile is a way to cut a GPU instance further.
type computeProfile struct {
	name           string
	id, total, sms int
	whole          bool
}

// computeProfiles lists how the instance could be cut, all of it last.
func computeProfiles(m gpu.Model, of gpu.Profile) []computeProfile {
	var out []computeProfile
	seen := map[int]bool{}
	for _, p := range m.Profiles() {
		id := computeID(p)
		if p.Slices >= of.Slices || seen[id] || id == 7 && m.Family == "ampere" {
			continue
		}
		seen[id] = true
		total := of.Slices / p.Slices
		if id == 7 {
			total = of.SMs / p.SMs
		}
		out = append(out, computeProfile{fmt.Sprintf("%dc.%s", p.Slices, bare(of)), id, total, p.SMs, false})
	}
	return append(out, computeProfile{bare(of), computeID(of), 1, of.SMs, true})
}

func computeProfileTable(gpus []view) string {
	const rule = "+--------------------------------------------------------------------------------------+\n"
	var b strings.Builder
	b.WriteString(rule + "| Compute instance profiles:                                                           |\n" +
		"| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       |\n" +
		"|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  |\n" +
		"|         ID                                                          CE    JPEG       |\n" +
		"|======================================================================================|\n")
	for _, v := range gpus {
		for _, p := range v.parts() {
			for _, c := range computeProfiles(v.Model, p.Profile) {
				free, star := c.total, " "
				if p.Compute {
					free = 0
				}
				if c.whole {
					star = "*"
				}
				e := p.Profile.Engines
				fmt.Fprintf(&b, "|%4d%7d       %-21s%d%s     %d/%d           %-10d%-6d%-6d%d   |\n", v.shown, v.GPUInstance(p.Instance),
					"MIG "+c.name, c.id, star, free, c.total, c.sms, e.Decoder, e.Encoder, e.OFA)
				fmt.Fprintf(&b, "|%70s%-6d%d         |\n%s", "", e.Copy, e.JPEG, rule)
			}
		}
	}
	return b.String()
}

// createInstances makes GPU instances for a list of profiles, each with an optional place, on each GPU.
func (r *run) createInstances(o subcommand, gpus []view) *failure {
	for _, v := range gpus {
		for _, word := range splitList(o["-cgi"]) {
			made, err := r.createInstance(&v, word, o.has("-C"))
			if err != nil {
				return changeFailed(fmt.Sprintf("create a GPU instance on GPU %2d using profile %s", v.shown, strings.Split(word, ":")[0]), "create GPU instances", err)
			}
			p := made.Profile
			r.printf("Successfully created GPU instance ID %2d on GPU %2d using profile MIG %s (ID %2d)\n", v.GPUInstance(made), v.shown, p.Name, p.ID)
			if made.Compute {
				r.createdCompute(v, made)
			}
		}
	}
	return nil
}

func (r *run) createdCompute(v view, i gpu.Instance) {
	r.printf("Successfully created compute instance ID  0 on GPU %2d GPU instance ID %2d using profile MIG %s (ID %2d)\n",
		v.shown, v.GPUInstance(i), bare(i.Profile), computeID(i.Profile))
}

func (r *run) createInstance(v *view, word string, compute bool) (gpu.Instance, error) {
	name, place, placed := strings.Cut(word, ":")
	p, known := v.Model.Profile(name)
	start := -1
	if placed {
		n, err := strconv.Atoi(place)
		if err != nil || n < 0 {
			return gpu.Instance{}, gpu.ErrInvalid
		}
		start = n
	}
	if !known {
		return gpu.Instance{}, gpu.ErrInvalid
	}
	next, made, err := v.Model.Create(v.list(), p, start, compute)
	if err != nil {
		return made, err
	}
	return made, r.cut(v, next)
}

// eachPart does something to every GPU instance that was chosen.
func (r *run) eachPart(gpus []view, verb, noun string, do func(v *view, i gpu.Instance) error) *failure {
	for k := range gpus {
		v := &gpus[k]
		all := r.partsOf(v.UUID)
		for _, p := range v.parts() {
			v.Parts = all
			if err := do(v, p.Instance); err != nil {
				return changeFailed(fmt.Sprintf("%s ID %2d from GPU %2d", verb, v.GPUInstance(p.Instance), v.shown), strings.Fields(verb)[0]+" "+noun, err)
			}
			all = v.Parts
		}
	}
	return nil
}

// partsOf is all instances of a GPU, chosen or not.
func (r *run) partsOf(uuid string) []gpu.Part {
	for _, g := range r.host.GPUs {
		if g.UUID == uuid {
			return slices.Clone(g.Parts)
		}
	}
	return nil
}

func (r *run) createCompute(v *view, i gpu.Instance) error {
	if i.Compute {
		return gpu.ErrInsufficient
	}
	if err := r.setCompute(v, i, true); err != nil {
		return err
	}
	r.createdCompute(*v, i)
	return nil
}

func (r *run) destroyCompute(v *view, i gpu.Instance) error {
	if !i.Compute {
		return nil
	}
	if err := r.setCompute(v, i, false); err != nil {
		return err
	}
	r.printf("Successfully destroyed compute instance ID  0 from GPU %2d GPU instance ID %2d\n", v.shown, v.GPUInstance(i))
	return nil
}

func (r *run) setCompute(v *view, i gpu.Instance, on bool) error {
	next := v.list()
	for k := range next {
		if next[k].Start == i.Start {
			next[k].Compute = on
		}
	}
	return r.cut(v, next)
}

func (r *run) destroyInstance(v *view, i gpu.Instance) error {
	if i.Compute {
		return gpu.ErrInUse
	}
	next := slices.DeleteFunc(v.list(), func(o gpu.Instance) bool { return o.Start == i.Start })
	if err := r.cut(v, next); err != nil {
		return err
	}
	r.printf("Successfully destroyed GPU instance ID %2d from GPU %2d\n", v.GPUInstance(i), v.shown)
	return nil
}

// More of NVML's answers to whoever wants to change a GPU.
const (
	errPermission  gpu.Error = "Insufficient Permissions" // in a container
	errUnsupported gpu.Error = "Not Supported"
)

// cut changes the GPU's instances, and what this run knows of them.
func (r *run) cut(v *view, next []gpu.Instance) error {
	if r.host.Cut == nil {
		return errPermission
	}
	if err := r.host.Cut(v.UUID, gpu.Partition{Enabled: true, Instances: next}); err != nil {
		return err
	}
	var parts []gpu.Part
	for _, i := range next {
		parts = append(parts, gpu.Part{Instance: i})
	}
	v.Parts = parts
	for k := range r.host.GPUs {
		if r.host.GPUs[k].UUID == v.UUID {
			r.host.GPUs[k].Parts = parts
		}
	}
	return nil
}

// changeFailed is how the real program says that a change was refused.
func changeFailed(what, all string, err error) *failure {
	said, code := refusal(err)
	return &failure{fmt.Sprintf("Unable to %s: %s\nFailed to %s: %s\n", what, said, all, said), code}
}

// refusal is NVML's text for the error, and the exit code that goes with it.
func refusal(err error) (string, int) {
	for code, e := range map[int]error{
		exitInsufficient: gpu.ErrInsufficient, exitBadArgument: gpu.ErrInvalid, exitInUse: gpu.ErrInUse,
		exitNotFound: gpu.ErrNotFound, exitPermission: errPermission, exitNotAvailable: errUnsupported,
	} {
		if errors.Is(err, e) {
			return e.Error(), code
		}
	}
	return "Unknown Error", exitUsage
}

// setMIG is -mig 0 and -mig 1.
func (r *run) setMIG(o options) *failure {
	gpus, err := r.views(o.ids)
	if err != nil {
		return err
	}
	on := o.mig == "1"
	word := "Disabled"
	if on {
		word = "Enabled"
	}
	for _, v := range gpus {
		var err error
		switch {
		case !v.Model.MIG:
			err = errUnsupported
		case r.host.Cut == nil:
			err = errPermission
		case v.MIGEnabled == on:
		case len(v.Parts) > 0:
			err = gpu.ErrInUse
		default:
			err = r.host.Cut(v.UUID, gpu.Partition{Enabled: on})
		}
		if err != nil {
			said, code := refusal(err)
			return &failure{fmt.Sprintf("Unable to %s MIG Mode for GPU %s: %s\nTerminating early due to previous errors.\n",
				strings.ToLower(strings.TrimSuffix(word, "d")), v.BusID, said), code}
		}
		r.printf("%s MIG Mode for GPU %s\n", word, v.BusID)
	}
	r.print("All done.\n")
	return nil
}

// migTable is the part of the summary that GPUs in MIG mode add.
func migTable(gpus []view) string {
	if !slices.ContainsFunc(gpus, func(v view) bool { return v.MIGEnabled }) {
		return ""
	}
	const rule = "+------------------+----------------------------------+-----------+-----------------------+\n"
	var b strings.Builder
	b.WriteString(wideRule + "| MIG devices:                                                                            |\n" + rule +
		"| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |\n" +
		"|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |\n" +
		"|                  |                                  |        ECC|                       |\n" +
		"|==================+==================================+===========+=======================|\n")
	rows := 0
	for _, v := range gpus {
		for dev, p := range v.devices() {
			rows++
			e := p.Profile.Engines
			fmt.Fprintf(&b, "|%3d%5d%4d%4d  |%19s / %-12s| %-8d0 |%3d%4d%5d%5d%5d |\n", v.shown, v.GPUInstance(p.Instance), 0, dev,
				mib(p.UsedMiB), mib(p.Profile.MemoryMiB), p.Profile.SMs, e.Copy, e.Encoder, e.Decoder, e.OFA, e.JPEG)
			fmt.Fprintf(&b, "|                  |%19s / %-12s|           |                       |\n%s", mib(0), mib(v.bar1MiB()*p.Profile.Size/v.Model.Slots()), rule)
		}
	}
	if rows == 0 {
		b.WriteString("|  No MIG devices found                                                                   |\n" + wideRule)
	}
	return b.String() + "\n"
}

// devices are the instances that programs can use, in the order in which they are numbered.
func (v view) devices() []gpu.Part {
	out := slices.DeleteFunc(slices.Clone(v.Parts), func(p gpu.Part) bool { return !p.Compute })
	slices.SortFunc(out, func(a, b gpu.Part) int { return v.GPUInstance(a.Instance) - v.GPUInstance(b.Instance) })
	return out
}

const migUsage = `
    Usage: nvidia-smi mig [options]

    [-i | --id]:                              GPUs by index, UUID or bus id, separated by commas
    [-gi | --gpu-instance-id]:                GPU instances by number, separated by commas
    [-lgip | --list-gpu-instance-profiles]:   what a GPU can be cut into, and how often
    [-lgipp | --list-gpu-instance-possible-placements]: where instances may begin
    [-lgi | --list-gpu-instances]:            the GPU instances there are
    [-lcip | --list-compute-instance-profiles]: what they can be cut into
    [-lci | --list-compute-instances]:        the compute instances there are
    [-cgi | --create-gpu-instance]:           create GPU instances: profiles by name or number,
                                              each with :START if it must begin there
    [-C | --default-compute-instance]:        with -cgi: and a compute instance in each
    [-cci | --create-compute-instance]:       create a compute instance in each GPU instance
    [-dci | --destroy-compute-instance]:      destroy compute instances
    [-dgi | --destroy-gpu-instance]:          destroy GPU instances
    [-h | --help]:                            this text
`
