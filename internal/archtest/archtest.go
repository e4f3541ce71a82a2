// Package archtest holds the architecture as a table and, in its test, the code to it:
// which package may import which, where the standard library is all there is, and who may
// compile Kubernetes itself. A new package has no row, so it fails until it gets one.
package archtest

// module is this module's path.
const module = "github.com/berth-dev/berth"

// kubernetes is the module that takes minutes to build. Only packages marked Heavy may
// depend on it, however indirectly.
const kubernetes = "k8s.io/kubernetes"

// Rule is one package: its ring and what of this module it may import.
type Rule struct {
	Ring    Ring
	Imports []string // paths below the module; of packages of the same ring or further in
	Tests   []string // what of this module its tests may import besides, of any ring
	Heavy   bool     // may compile k8s.io/kubernetes
	// Objects lets a pure package read Kubernetes' own objects: k8s.io/api and what it is written in, as values.
	Objects bool
	// Tool is of a pure package that no program is made of: tests and developers run it. It may do what it likes with the
	// standard library.
	Tool bool
	// Unordered is of a pure package some of whose ranges over maps nobody has sorted or vouched for yet.
	Unordered bool
}

// Ring is how far from the core a package is. Imports point inward.
type Ring int

const (
	Pure  Ring = iota // standard library only
	Edge              // talks to the world
	Shell             // commands
)

// Rules has a row for every package, tests included in their package's row. Tests of pure packages may use
// what the rest of the module uses.
var Rules = map[string]Rule{
	"engine": {
		Ring: Pure, Imports: []string{
			"engine/why", "engine/internal/api", "engine/internal/attempt", "engine/internal/audit", "engine/internal/calendar", "engine/internal/census", "engine/internal/cluster", "engine/internal/describe", "engine/internal/dismiss", "engine/internal/draft", "engine/internal/emptied", "engine/internal/index", "engine/internal/memory", "engine/internal/mix", "engine/internal/order", "engine/internal/place", "engine/internal/preempt", "engine/internal/queue", "engine/internal/quota",
		},
		Tests: []string{"engine/internal/fragment", "engine/internal/oracle", "engine/internal/packing/openb", "engine/internal/quantity", "internal/scenario"},
	},
	"engine/why":          {Ring: Pure},
	"engine/internal/api": {Ring: Pure, Imports: []string{"engine/why", "engine/internal/fit"}},
	"engine/internal/attempt": {Ring: Pure, Imports: []string{
		"engine/why", "engine/internal/api", "engine/internal/calendar", "engine/internal/cluster", "engine/internal/draft", "engine/internal/index", "engine/internal/order", "engine/internal/place", "engine/internal/quantity", "engine/internal/quota",
	}, Tests: []string{"engine/internal/preempt"}},
	"engine/internal/audit": {Ring: Pure, Imports: []string{
		"engine/internal/api", "engine/internal/calendar", "engine/internal/cluster", "engine/internal/index", "engine/internal/order", "engine/internal/preempt",
	}},
	"engine/internal/dismiss": {Ring: Pure, Imports: []string{
		"engine/internal/api", "engine/internal/calendar", "engine/internal/cluster", "engine/internal/draft", "engine/internal/index", "engine/internal/preempt",
	}, Tests: []string{"engine/internal/place"}},
	"engine/internal/memory": {Ring: Pure, Imports: []string{"engine/internal/api", "engine/internal/cluster", "engine/internal/draft"}},
	"engine/internal/mix":    {Ring: Pure, Imports: []string{"engine/internal/api", "engine/internal/cluster", "engine/internal/draft"}},
	"engine/internal/calendar": {Ring: Pure, Imports: []string{
		"engine/why", "engine/internal/api", "engine/internal/cluster", "engine/internal/draft", "engine/internal/index", "engine/internal/quantity",
	}, Tests: []string{"engine/internal/place"}},
	"engine/internal/census":   {Ring: Pure, Imports: []string{"engine/internal/api", "engine/internal/cluster", "engine/internal/quantity"}},
	"engine/internal/describe": {Ring: Pure, Imports: []string{"engine/why", "engine/internal/api", "engine/internal/calendar", "engine/internal/census"}},
	"engine/internal/cluster":  {Ring: Pure, Imports: []string{"engine/why", "engine/internal/api", "engine/internal/device", "engine/internal/quantity"}},
	"engine/internal/device":   {Ring: Pure, Imports: []string{"engine/internal/api"}},
	"engine/internal/draft":    {Ring: Pure, Imports: []string{"engine/why", "engine/internal/api", "engine/internal/cluster"}},
	"engine/internal/emptied":  {Ring: Pure, Imports: []string{"engine/internal/api", "engine/internal/cluster"}},
	"engine/internal/fit":      {Ring: Pure},
	"engine/internal/fragment": {Ring: Pure},
	"engine/internal/index": {Ring: Pure, Imports: []string{
		"engine/why", "engine/internal/api", "engine/internal/cluster", "engine/internal/device", "engine/internal/fit", "engine/internal/fragment", "engine/internal/divide", "engine/internal/quantity",
	}},
	"engine/internal/divide": {Ring: Pure},
	"engine/internal/place": {Ring: Pure, Imports: []string{
		"engine/why", "engine/internal/api", "engine/internal/cluster", "engine/internal/divide", "engine/internal/index", "engine/internal/quantity",
	}},
	"engine/internal/preempt": {Ring: Pure, Imports: []string{
		"engine/why", "engine/internal/api", "engine/internal/cluster", "engine/internal/device", "engine/internal/draft", "engine/internal/index", "engine/internal/place", "engine/internal/quantity", "engine/internal/queue",
	}},
	"engine/internal/quantity": {Ring: Pure, Imports: []string{"engine/internal/api"}},
	"engine/internal/queue":    {Ring: Pure, Imports: []string{"engine/internal/api", "engine/internal/cluster", "engine/internal/draft", "engine/internal/quantity", "engine/internal/share"}},
	"engine/internal/order":    {Ring: Pure, Imports: []string{"engine/internal/api", "engine/internal/cluster", "engine/internal/draft", "engine/internal/index", "engine/internal/quantity", "engine/internal/queue"}},
	"engine/internal/quota":    {Ring: Pure, Imports: []string{"engine/why", "engine/internal/api", "engine/internal/cluster", "engine/internal/draft", "engine/internal/preempt", "engine/internal/quantity"}},
	"engine/internal/share":    {Ring: Pure},
	"engine/internal/oracle":   {Ring: Pure, Imports: []string{"engine", "engine/why"}},

	"engine/internal/packing":       {Ring: Pure, Imports: []string{"engine/internal/fragment", "engine/internal/packing/mig", "engine/internal/packing/openb"}, Tool: true},
	"engine/internal/packing/mig":   {Ring: Pure, Imports: []string{"engine/internal/fragment"}, Tool: true},
	"engine/internal/packing/openb": {Ring: Pure, Imports: []string{"engine/internal/fragment"}, Tool: true},

	"diagnose": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "diagnose/check", "diagnose/check/l1", "diagnose/check/l2", "diagnose/check/l3", "diagnose/check/l4", "diagnose/edit", "diagnose/facts",
		"diagnose/internal/history", "diagnose/internal/life", "diagnose/internal/place", "diagnose/internal/podspec", "diagnose/internal/queue", "diagnose/internal/signs", "diagnose/internal/wording", "engine", "engine/why", "kube/convert",
	}, Objects: true, Tests: []string{"api/v1alpha1", "diagnose/doctor", "kube/cluster", "kube/devices", "kube/inspect"}},
	"diagnose/check": {Ring: Pure, Imports: []string{
		"diagnose/edit", "diagnose/facts", "diagnose/internal/podspec", "engine", "engine/why",
	}, Objects: true},
	"diagnose/check/l1": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "diagnose/check", "diagnose/edit", "diagnose/facts", "diagnose/gpustack", "diagnose/internal/place", "diagnose/internal/queue",
		"diagnose/internal/supply", "diagnose/internal/wording", "engine/why", "kube/dialect", "kube/dialect/karpenter",
	}, Objects: true},
	"diagnose/check/l2": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "diagnose/check", "diagnose/edit", "diagnose/facts", "diagnose/gpustack", "diagnose/internal/life",
		"diagnose/internal/place", "diagnose/internal/podspec", "diagnose/internal/queue", "diagnose/internal/supply",
		"diagnose/internal/wording", "engine/why", "kube/convert", "kube/dialect", "kube/dialect/clusterautoscaler", "kube/dialect/karpenter", "kube/report",
	}, Objects: true},
	"diagnose/check/l3": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "diagnose/check", "diagnose/edit", "diagnose/facts", "diagnose/gpustack", "diagnose/internal/life", "diagnose/internal/place",
		"diagnose/internal/podspec", "diagnose/internal/queue", "diagnose/internal/signs", "diagnose/internal/supply", "diagnose/internal/wording", "engine/why",
		"internal/spelling", "kube/convert", "kube/dialect", "kube/dialect/kai", "kube/dialect/kubescheduler", "kube/dialect/kueue",
	}, Objects: true},
	"diagnose/check/l4": {Ring: Pure, Imports: []string{
		"diagnose/check", "diagnose/edit", "diagnose/facts", "diagnose/gpustack", "diagnose/internal/life", "diagnose/internal/network",
		"diagnose/internal/place", "diagnose/internal/podspec", "diagnose/internal/wording", "kube/dialect",
	}, Objects: true},
	"diagnose/doctor": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "diagnose/check", "diagnose/facts", "diagnose/gpustack", "diagnose/internal/podspec", "diagnose/internal/signs", "diagnose/internal/supply",
		"diagnose/internal/wording", "engine", "internal/spelling", "kube/convert", "kube/dialect", "kube/dialect/clusterautoscaler", "kube/dialect/kai", "kube/dialect/karpenter", "kube/dialect/kueue", "kube/dialect/volcano",
	}, Objects: true, Tests: []string{"kube/cluster", "kube/exposition"}},
	"diagnose/edit":  {Ring: Pure, Imports: []string{"api/v1alpha1", "diagnose/facts"}, Objects: true},
	"diagnose/facts": {Ring: Pure, Imports: []string{"engine", "engine/why", "kube/convert", "kube/dialect", "kube/dialect/all", "kube/dialect/clusterautoscaler", "kube/dialect/controllers", "kube/dialect/kubescheduler"}, Objects: true},
	"diagnose/gpustack": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "diagnose/facts", "diagnose/internal/podspec", "diagnose/internal/wording", "kube/dialect",
	}, Objects: true},
	"diagnose/internal/history": {Ring: Pure, Imports: []string{"diagnose/edit", "diagnose/facts", "diagnose/internal/wording"}, Objects: true},
	"diagnose/internal/life": {Ring: Pure, Imports: []string{
		"diagnose/check", "diagnose/edit", "diagnose/facts", "diagnose/gpustack", "diagnose/internal/place", "diagnose/internal/podspec", "diagnose/internal/wording", "engine/why", "kube/report",
	}, Objects: true},
	"diagnose/internal/network": {Ring: Pure, Imports: []string{"diagnose/facts", "diagnose/internal/wording"}, Objects: true},
	"diagnose/internal/place": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "diagnose/check", "diagnose/edit", "diagnose/facts", "diagnose/gpustack", "diagnose/internal/podspec",
		"diagnose/internal/wording", "engine/why", "internal/spelling", "kube/convert", "kube/dialect/kubescheduler", "kube/report",
	}, Objects: true, Tests: []string{"kube/devices"}},
	"diagnose/internal/podspec": {Ring: Pure, Imports: []string{"diagnose/facts", "kube/dialect"}, Objects: true},
	"diagnose/internal/queue": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "diagnose/check", "diagnose/edit", "diagnose/facts", "diagnose/internal/life", "diagnose/internal/place", "diagnose/internal/podspec",
		"diagnose/internal/wording", "engine/why", "internal/spelling", "kube/convert", "kube/dialect", "kube/dialect/kai",
		"kube/dialect/kueue", "kube/dialect/volcano", "kube/report",
	}, Objects: true},
	"diagnose/internal/signs": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "diagnose/check", "diagnose/facts", "diagnose/internal/life", "diagnose/internal/wording", "kube/dialect/kubescheduler",
	}, Objects: true},
	"diagnose/internal/supply": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "diagnose/check", "diagnose/edit", "diagnose/facts", "diagnose/gpustack", "diagnose/internal/place",
		"diagnose/internal/podspec", "diagnose/internal/wording", "engine/why", "kube/dialect", "kube/dialect/clusterautoscaler", "kube/dialect/karpenter",
	}, Objects: true},
	"diagnose/internal/wording": {Ring: Pure},
	"diagnose/submit": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "capacity/maintenance", "diagnose", "diagnose/check", "diagnose/edit", "diagnose/facts", "diagnose/gpustack", "diagnose/internal/place", "diagnose/internal/podspec",
		"diagnose/internal/wording", "diagnose/submit/rule", "diagnose/submit/workload", "engine", "engine/why", "internal/spelling", "kube/cluster", "kube/convert", "kube/dialect", "kube/dialect/all",
	}, Objects: true, Tests: []string{"fleet", "fleet/file", "kube/devices", "kube/dialect/hami", "kube/manifest"}},
	"diagnose/submit/rule": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "diagnose/edit", "diagnose/facts", "diagnose/gpustack", "diagnose/internal/place", "diagnose/internal/podspec", "diagnose/internal/wording",
		"diagnose/submit/workload", "engine/why", "internal/spelling", "kube/convert",
	}, Objects: true, Tests: []string{"kube/manifest"}},
	"diagnose/submit/workload": {Ring: Pure, Imports: []string{"diagnose/edit", "diagnose/facts", "diagnose/internal/podspec", "engine/why", "kube/dialect", "kube/dialect/controllers"}, Objects: true, Tests: []string{"kube/manifest"}},

	"api/v1alpha1": {Ring: Pure, Objects: true},

	"capacity":       {Ring: Pure},
	"capacity/bill":  {Ring: Pure, Imports: []string{"api/v1alpha1", "capacity", "capacity/payer", "diagnose/gpustack", "engine"}, Objects: true},
	"capacity/cloud": {Ring: Pure, Imports: []string{"api/v1alpha1", "diagnose/gpustack"}, Objects: true},
	"capacity/join": {Ring: Pure, Imports: []string{
		"api/v1alpha1", "capacity", "capacity/bill", "capacity/payer", "diagnose/check", "diagnose/check/l1", "diagnose/check/l2", "diagnose/doctor", "diagnose/facts", "diagnose/gpustack", "kube/dialect", "kube/dialect/karpenter",
	}, Objects: true, Tests: []string{"engine", "engine/why", "kube/convert"}},

	"capacity/launch":      {Ring: Pure, Imports: []string{"engine"}},
	"capacity/maintenance": {Ring: Pure},
	"capacity/payer":       {Ring: Pure, Imports: []string{"api/v1alpha1"}, Objects: true},

	"controlplane":           {Ring: Edge, Imports: []string{"controlplane/home"}, Heavy: true},
	"controlplane/home":      {Ring: Edge},
	"controlplane/operators": {Ring: Edge, Imports: []string{"controlplane/home", "internal/selfsigned", "kube/crd"}},

	"fleet": {Ring: Edge, Imports: []string{
		"api/v1alpha1", "fleet/clock", "fleet/device", "fleet/dra", "fleet/fault", "fleet/file", "fleet/gpu",
		"fleet/kubelet", "fleet/storage", "fleet/stream", "fleet/usage", "fleet/workload", "internal/selfsigned", "kube/crd", "kube/dialect/hami",
	}},
	"fleet/clock":  {Ring: Edge},
	"fleet/dcgm":   {Ring: Edge, Imports: []string{"fleet/gpu"}},
	"fleet/device": {Ring: Edge, Imports: []string{"fleet/gpu"}},
	"fleet/dra":    {Ring: Edge, Imports: []string{"fleet/gpu"}},
	"fleet/drill":  {Ring: Edge, Imports: []string{"api/v1alpha1"}},
	"fleet/fault":  {Ring: Edge, Imports: []string{"api/v1alpha1", "fleet/clock", "fleet/device", "fleet/gpu"}},
	"fleet/file":   {Ring: Edge, Imports: []string{"api/v1alpha1", "fleet/gpu", "internal/spelling"}},
	"fleet/gpu":    {Ring: Edge},
	"fleet/kubelet": {Ring: Edge, Imports: []string{
		"api/v1alpha1", "fleet/clock", "fleet/dcgm", "fleet/device", "fleet/dra", "fleet/fault", "fleet/gpu", "fleet/ksm", "fleet/shell", "fleet/shell/budget", "fleet/smi", "fleet/storage", "fleet/stream", "fleet/usage", "fleet/workload", "kube/dialect/hami",
	}},
	"fleet/shell": {Ring: Edge, Imports: []string{
		"fleet/clock", "fleet/shell/budget", "fleet/shell/internal/fd", "fleet/shell/internal/lang", "fleet/shell/internal/regex", "fleet/shell/vfs",
	}},
	"fleet/shell/budget":      {Ring: Edge},
	"fleet/shell/internal/fd": {Ring: Edge, Imports: []string{"fleet/shell/budget", "fleet/shell/vfs"}},
	"fleet/shell/internal/lang": {Ring: Edge, Imports: []string{
		"fleet/clock", "fleet/shell/budget", "fleet/shell/internal/fd", "fleet/shell/internal/regex", "fleet/shell/vfs",
	}},
	"fleet/shell/internal/regex": {Ring: Edge, Imports: []string{"fleet/shell/budget"}},
	"fleet/shell/vfs":            {Ring: Edge, Imports: []string{"fleet/shell/budget"}},
	"fleet/smi":                  {Ring: Edge, Imports: []string{"fleet/gpu"}},
	"fleet/provisioner":          {Ring: Edge, Imports: []string{"api/v1alpha1", "fleet/clock", "kube/crd"}},
	"fleet/storage":              {Ring: Edge, Imports: []string{"fleet/clock"}},
	"fleet/stream":               {Ring: Edge},
	"fleet/ksm":                  {Ring: Edge},
	"fleet/usage":                {Ring: Edge},
	"fleet/workload":             {Ring: Edge, Imports: []string{"fleet/clock"}},

	"kube/answer":                    {Ring: Edge, Imports: []string{"engine", "engine/why", "internal/selfsigned", "kube/report"}},
	"kube/dialect":                   {Ring: Pure, Imports: []string{"api/v1alpha1"}, Objects: true},
	"kube/dialect/clusterautoscaler": {Ring: Pure, Imports: []string{"kube/dialect/kubescheduler"}, Objects: true},
	"kube/dialect/hami":              {Ring: Pure},
	"kube/dialect/controllers":       {Ring: Pure, Imports: []string{"api/v1alpha1", "kube/dialect"}, Tests: []string{"kube/dialect/dialecttest"}, Objects: true},
	"kube/dialect/all":               {Ring: Pure, Imports: []string{"kube/dialect", "kube/dialect/controllers", "kube/dialect/coscheduling", "kube/dialect/kai", "kube/dialect/kueue", "kube/dialect/volcano"}, Tests: []string{"kube/dialect/dialecttest"}, Objects: true},
	"kube/dialect/dialecttest":       {Ring: Pure, Imports: []string{"kube/dialect"}, Tool: true, Objects: true},
	"kube/dialect/kai":               {Ring: Pure, Imports: []string{"api/v1alpha1", "engine/why", "kube/dialect"}, Tests: []string{"kube/dialect/dialecttest"}, Objects: true},
	"kube/dialect/coscheduling":      {Ring: Pure, Imports: []string{"api/v1alpha1", "kube/dialect"}, Tests: []string{"kube/dialect/dialecttest"}, Objects: true},
	"kube/dialect/karpenter":         {Ring: Pure, Imports: []string{"kube/dialect"}, Objects: true},
	"kube/dialect/kubescheduler":     {Ring: Pure, Objects: true},
	"kube/cluster":                   {Ring: Pure, Imports: []string{"api/v1alpha1", "engine", "engine/why", "kube/cluster/internal/inventory", "kube/cluster/internal/rules", "kube/cluster/internal/tenancy", "kube/cluster/internal/tiers", "kube/cluster/internal/volumes", "kube/convert", "kube/dialect", "kube/dialect/all", "kube/dialect/controllers"}, Tests: []string{"kube/devices", "kube/dialect/kai"}, Objects: true},

	"kube/cluster/internal/inventory": {Ring: Pure, Imports: []string{"api/v1alpha1", "engine", "engine/why", "kube/convert"}, Objects: true},
	"kube/cluster/internal/rules":     {Ring: Pure, Imports: []string{"engine", "kube/convert"}, Objects: true},
	"kube/cluster/internal/tenancy":   {Ring: Pure, Imports: []string{"api/v1alpha1", "engine", "kube/convert", "kube/dialect"}, Objects: true},
	"kube/cluster/internal/tiers":     {Ring: Pure, Imports: []string{"api/v1alpha1", "engine", "kube/dialect"}, Objects: true},
	"kube/cluster/internal/volumes":   {Ring: Pure, Imports: []string{"engine", "kube/convert"}, Objects: true},

	"kube/convert":         {Ring: Pure, Imports: []string{"api/v1alpha1", "engine", "engine/why", "kube/dialect", "kube/dialect/hami"}, Tests: []string{"fleet/gpu"}, Objects: true},
	"kube/dialect/kueue":   {Ring: Pure, Imports: []string{"api/v1alpha1", "engine/why", "kube/dialect"}, Tests: []string{"kube/dialect/dialecttest"}, Objects: true},
	"kube/dialect/volcano": {Ring: Pure, Imports: []string{"api/v1alpha1", "engine/why", "kube/dialect", "kube/dialect/hami"}, Tests: []string{"kube/dialect/dialecttest"}, Objects: true},
	"kube/crd":             {Ring: Edge, Tests: []string{"api/v1alpha1"}},
	"kube/devices":         {Ring: Edge},
	"kube/dryrun":          {Ring: Edge, Imports: []string{"diagnose/edit", "diagnose/submit", "diagnose/submit/rule", "diagnose/submit/workload"}},
	"kube/exposition":      {Ring: Edge, Imports: []string{"diagnose/doctor"}},
	"kube/inspect":         {Ring: Edge, Imports: []string{"api/v1alpha1", "diagnose", "diagnose/check", "diagnose/facts", "internal/spelling", "kube/devices", "kube/dialect/kubescheduler", "kube/inspect/mask"}, Tests: []string{"engine", "engine/why", "kube/report"}},
	"kube/inspect/mask":    {Ring: Edge},
	"kube/install":         {Ring: Edge, Imports: []string{"api/v1alpha1", "diagnose/facts", "kube/answer", "kube/cluster", "kube/crd", "kube/dialect/all", "kube/policy", "kube/scheduler"}},
	"kube/manifest":        {Ring: Edge},
	"kube/metrics":         {Ring: Edge, Imports: []string{"capacity", "engine"}, Tests: []string{"engine/why", "fleet/dcgm"}},
	"kube/policy":          {Ring: Edge, Imports: []string{"api/v1alpha1"}, Tests: []string{"kube/convert", "kube/dialect/all"}},
	"kube/provision":       {Ring: Edge, Imports: []string{"api/v1alpha1", "capacity/launch", "capacity/payer", "engine", "kube/convert", "kube/report"}, Tests: []string{"engine/why"}},
	"kube/report":          {Ring: Pure, Imports: []string{"api/v1alpha1", "engine", "engine/why", "kube/convert"}, Objects: true},
	"kube/scheduler":       {Ring: Edge, Imports: []string{"api/v1alpha1", "engine", "engine/why", "kube/answer", "kube/cluster", "kube/convert", "kube/crd", "kube/devices", "kube/dialect", "kube/dialect/all", "kube/dialect/controllers", "kube/dialect/hami", "kube/metrics", "kube/policy", "kube/report", "kube/telemetry", "kube/trace", "record"}, Tests: []string{"diagnose", "diagnose/facts"}},
	"kube/trace":           {Ring: Edge},
	"kube/telemetry":       {Ring: Edge, Imports: []string{"diagnose/doctor", "kube/exposition"}},

	"web": {Ring: Edge, Imports: []string{"api/v1alpha1", "capacity", "capacity/bill", "capacity/join", "diagnose/facts", "kube/answer"}, Tests: []string{"engine", "engine/why", "internal/chromium"}},

	"record": {Ring: Edge, Imports: []string{"engine", "engine/why"}},

	"bench": {Ring: Shell},
	"bench/live": {Ring: Shell, Imports: []string{
		"api/v1alpha1", "cli", "controlplane", "controlplane/home", "kube/inspect", "kube/scheduler",
	}, Heavy: true},

	"cli": {Ring: Shell, Imports: []string{
		"api/v1alpha1", "capacity", "capacity/bill", "capacity/cloud", "capacity/join", "capacity/maintenance", "controlplane/home", "controlplane/operators", "diagnose", "diagnose/check", "diagnose/doctor", "diagnose/edit", "diagnose/facts", "diagnose/submit", "diagnose/submit/rule", "engine", "engine/why", "fleet", "fleet/dra", "fleet/drill", "fleet/file", "fleet/provisioner", "kube/answer", "kube/cluster", "kube/convert", "kube/devices", "kube/dialect", "kube/dialect/all", "kube/dryrun", "kube/exposition", "kube/inspect", "kube/install", "kube/manifest", "kube/metrics", "kube/provision", "kube/scheduler", "kube/telemetry", "kube/trace", "record", "web",
	}},
	"cmd/berth":         {Ring: Shell, Imports: []string{"cli", "controlplane", "fleet"}, Tests: []string{"internal/chromium", "internal/intruder"}, Heavy: true},
	"cmd/kubectl-berth": {Ring: Shell, Imports: []string{"cli"}},

	"internal/archtest": {Ring: Pure, Tool: true},
	"internal/breakage": {Ring: Shell, Imports: []string{"api/v1alpha1", "controlplane/home"}},
	"internal/chaos": {Ring: Shell, Imports: []string{
		"api/v1alpha1", "controlplane/home", "engine", "internal/selfsigned", "kube/convert", "kube/dialect/hami", "kube/report", "kube/scheduler", "record",
	}, Tests: []string{"engine/why"}},
	"internal/conformance":          {Ring: Edge, Tests: []string{"diagnose/facts", "diagnose/submit/workload", "engine", "engine/why", "kube/cluster", "kube/convert"}, Heavy: true},
	"internal/conformance/upstream": {Ring: Edge},
	"internal/chromium":             {Ring: Edge},
	"internal/failover":             {Ring: Shell},
	"internal/image":                {Ring: Shell},
	"internal/intruder":             {Ring: Edge},
	"internal/mutate":               {Ring: Shell},
	"internal/older":                {Ring: Shell, Imports: []string{"api/v1alpha1"}},
	"internal/release":              {Ring: Shell},
	"internal/selfsigned":           {Ring: Edge},
	"internal/spelling":             {Ring: Pure},
	"internal/scenario":             {Ring: Edge, Imports: []string{"engine", "engine/why"}},
}
