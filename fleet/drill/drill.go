// Package drill is short incidents to learn on: each breaks something in a running cluster, gives hints one by one, and says
// whether it is mended.
//
// A drill is manifests and Faults, made from a seed: names, sizes and places differ from one seed to the next. What is under
// way is kept in the cluster, in the namespace of the drill, so that any shell can go on with it. The command line calls Start,
// Hint, Check and Stop with the rights of whoever practises.
package drill

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"text/template"
)

// Namespace is where a drill happens.
const Namespace = "drill"

// Drill is one kind of incident.
type Drill struct {
	Name   string
	Report string // what somebody says who has the trouble; it does not give the cause away

	before   string   // manifests, and the work runs before anything goes wrong; "": it goes wrong from the start
	incident string   // manifests
	hints    []string // from a nudge to the mend itself
	mend     string   // a shell script that mends it, for tests and teachers
	leave    bool     // mended only when no pod is on a node that a fault of the drill hits
}

// Scene is what a seed makes of a drill.
type Scene struct {
	Drill    string
	Seed     uint64
	Work     string // name of the Deployment
	Team     string
	Replicas int
	GPUs     int    // of each pod
	Pool     string // one with GPUs and more than one node, if there is any
	Node     string // where the work runs, for drills that begin with work that runs
	Number   int    // anything from 3 to 9
}

// Place is a pool of nodes with GPUs.
type Place struct {
	Pool  string
	Nodes int
	GPUs  int // of each node
}

// All lists the drills in order of name.
func All() []Drill {
	out := slices.Clone(drills)
	slices.SortFunc(out, func(a, b Drill) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Find gives the drill of a name.
func Find(name string) (Drill, bool) {
	i := slices.IndexFunc(drills, func(d Drill) bool { return d.Name == name })
	if i < 0 {
		return Drill{}, false
	}
	return drills[i], true
}

// Set makes the scene of a drill on a fleet. It is the same for the same seed and places.
func (d Drill) Set(seed uint64, places []Place) (Scene, error) {
	places = slices.DeleteFunc(slices.Clone(places), func(p Place) bool { return p.GPUs < 1 || p.Nodes < 1 })
	if len(places) == 0 {
		return Scene{}, fmt.Errorf("drills need nodes with GPUs, and the fleet has none")
	}
	slices.SortFunc(places, func(a, b Place) int { return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Pool, b.Pool)) })
	h := fnv.New64a()
	h.Write([]byte(d.Name))
	r := rand.New(rand.NewPCG(seed, h.Sum64()))
	pick := func(words string) string { all := strings.Fields(words); return all[r.IntN(len(all))] }
	most := places[0].Nodes
	large := slices.IndexFunc(places, func(p Place) bool { return p.Nodes < min(most, 2) })
	if large < 0 {
		large = len(places)
	}
	place := places[r.IntN(large)]
	return Scene{
		Drill: d.Name, Seed: seed,
		Work:     pick("llama rank embed vision speech search ocr draft") + "-" + pick("train serve eval batch tune"),
		Team:     pick("research vision speech platform ads robots"),
		Replicas: 2 + r.IntN(2), GPUs: 1 + r.IntN(min(2, place.GPUs)), Pool: place.Pool, Number: 3 + r.IntN(7),
	}, nil
}

// render fills a template of the drill.
func (s Scene) render(text string) (string, error) {
	t, err := template.New(s.Drill).Funcs(template.FuncMap{"work": s.work}).Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = t.Execute(&out, s)
	return out.String(), err
}

// work is the Deployment of the scene with some lines of its pods' spec and of its container added, each a YAML flow value or
// block that is indented by nothing.
func (s Scene) work(spec, container string) string {
	indent := func(text string, by int) string {
		if text == "" {
			return ""
		}
		pad := strings.Repeat(" ", by)
		return pad + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+pad) + "\n"
	}
	image := "        image: registry.example/" + s.Team + ":" + fmt.Sprint(s.Number) + "\n"
	if strings.Contains(container, "image:") {
		image = ""
	}
	command := "        command: [python, main.py]\n"
	if strings.Contains(container, "command:") {
		command = ""
	}
	resources := fmt.Sprintf("        resources: {limits: {nvidia.com/gpu: %d}}\n", s.GPUs)
	if strings.Contains(container, "resources:") {
		resources = ""
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s, team: %[4]s}
    spec:
%[5]s      containers:
      - name: main
%[6]s`, s.Work, Namespace, s.Replicas, s.Team, indent(spec, 6), image+command+resources+indent(container, 8))
}

// Hints are the drill's, from a nudge to the mend itself.
func (s Scene) Hints() ([]string, error) {
	d, ok := Find(s.Drill)
	if !ok {
		return nil, fmt.Errorf("there is no drill %q", s.Drill)
	}
	var out []string
	for _, h := range d.hints {
		text, err := s.render(h)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	mend, err := s.Mend()
	return append(out, "This mends it:\n"+mend), err
}

// Mend is a shell script that mends the drill.
func (s Scene) Mend() (string, error) {
	d, ok := Find(s.Drill)
	if !ok {
		return "", fmt.Errorf("there is no drill %q", s.Drill)
	}
	text, err := s.render(d.mend)
	return strings.TrimSpace(text), err
}
