package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestCorpusLive plays manifests of the corpus of dialects (kube/cluster/testdata/manifests) on real clusters: one that speaks all
// dialects at once, and one for Kubernetes' own groups, whose kinds the first does not serve. Each file says which pods run in the end;
// here they have to, and no other. With -short a few of each dialect are drawn, and named in the output. It is played where
// $BERTH_CORPUS is set.
func TestCorpusLive(t *testing.T) {
	if os.Getenv("BERTH_CORPUS") == "" {
		t.Skip("set BERTH_CORPUS=1 to play the corpus of dialects on real clusters")
	}
	const each = 4 // of a dialect, with -short
	for _, cluster := range [][]string{{"coscheduling", "kai", "kueue", "volcano"}, {"upstream"}} {
		t.Run(strings.Join(cluster, "+"), func(t *testing.T) {
			var stories []*corpusStory
			for _, dialect := range cluster {
				all := corpusOf(t, dialect)
				if testing.Short() {
					rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
					all = all[:min(each, len(all))]
				}
				stories = append(stories, all...)
			}
			args := []string{"--default-scheduler", "berth"}
			if cluster[0] != "upstream" {
				args = append(args, "--dialect", strings.Join(cluster, ","))
			}
			c := startClusterOf(t, corpusFleet(t), args...)
			for _, s := range stories {
				t.Run(s.name, func(t *testing.T) { s.play(t, c) })
			}
		})
	}
}

// corpusFleet is the fleet that the corpus has where a file does not say otherwise.
func corpusFleet(t *testing.T) string {
	path, err := filepath.Abs("testdata/corpus-fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// corpusStory is a file of the corpus.
type corpusStory struct {
	name  string
	files [][]byte
	runs  map[string]int // pods that run in the end, by their controller
	first bool           // which of them run depends on who comes first: only their number is known
}

// byArrival is in the comment of a file of which the outcome depends on which pods come first: planned they come at once, and live not.
const byArrival = "Live, who comes first"

var ranLine = regexp.MustCompile(`(?m)^runs +(\S+)(?: x(\d+))?$`)

// corpusOf are the files of the dialect that need no nodes of their own, and in which nobody ends a pod or writes a status.
func corpusOf(t *testing.T, dialect string) (out []*corpusStory) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "kube", "cluster", "testdata", "manifests", dialect, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", dialect, len(files), err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := &corpusStory{name: dialect + "/" + strings.TrimSuffix(filepath.Base(file), ".txtar"), runs: make(map[string]int), first: bytes.Contains(a.Comment, []byte(byArrival))}
		fits := true
		for _, f := range a.Files {
			switch {
			case f.Name == "want" && bytes.Contains(f.Data, []byte("\nnot ours ")): // here Berth has pods that name no scheduler
				fits = false
			case f.Name == "want":
				last := bytes.Split(f.Data, []byte("after "))
				for _, m := range ranLine.FindAllSubmatch(last[len(last)-1], -1) {
					n := 1
					if len(m[2]) > 0 {
						n, _ = strconv.Atoi(string(m[2]))
					}
					s.runs[string(m[1])] += n
				}
			case !strings.HasSuffix(f.Name, ".yaml") || bytes.Contains(f.Data, []byte("kind: Node\n")) || bytes.Contains(f.Data, []byte("kind: Namespace\n")) ||
				bytes.Contains(f.Data, []byte("\nstatus:\n")):
				fits = false
			default:
				s.files = append(s.files, f.Data)
			}
		}
		if fits {
			out = append(out, s)
		}
	}
	return out
}

// play applies the files, waits until the pods run that should and no other has a node, and takes all of it away again.
func (s *corpusStory) play(t *testing.T, c *whyCluster) {
	defer s.remove(t, c)
	for i, text := range s.files {
		if out, err := c.kubectl(text, "apply", "-f", "-"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if i < len(s.files)-1 {
			time.Sleep(time.Second) // the files are one after another, and their plans too
		}
	}
	var got map[string]int
	same := 0 // it must be so, and stay so
	for end := time.Now().Add(patience); same < 2; time.Sleep(300 * time.Millisecond) {
		if got = placed(t, c); fmt.Sprint(got) == fmt.Sprint(s.runs) || s.first && total(got) == total(s.runs) {
			same++
			continue
		}
		if same = 0; time.Now().After(end) {
			t.Fatalf("on nodes are %v, want %v", got, s.runs)
		}
	}
}

func total(pods map[string]int) (n int) {
	for _, of := range pods {
		n += of
	}
	return n
}

// remove deletes what the files made, but for what the dialect itself installs.
func (s *corpusStory) remove(t *testing.T, c *whyCluster) {
	for _, text := range slices.Backward(s.files) {
		if out, err := c.kubectl(text, "delete", "--ignore-not-found", "--wait=false", "-f", "-"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	for end := time.Now().Add(patience); len(placed(t, c)) > 0; time.Sleep(300 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("pods are left on nodes: %v", placed(t, c))
		}
	}
}

// placed counts the pods in namespace default that have a node and are not over, by their controller; of a Deployment's ReplicaSet
// the name is the one that the corpus has for it.
func placed(t *testing.T, c *whyCluster) map[string]int {
	t.Helper()
	out, err := c.kubectl(nil, "get", "pods", "-o", "json")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var list struct {
		Items []struct {
			Metadata struct {
				Name            string
				Labels          map[string]string
				OwnerReferences []struct{ Kind, Name string }
			}
			Spec   struct{ NodeName string }
			Status struct{ Phase string }
		}
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	count := make(map[string]int)
	for _, p := range list.Items {
		if p.Spec.NodeName == "" || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
			continue
		}
		name := "Pod/" + p.Metadata.Name
		if len(p.Metadata.OwnerReferences) > 0 {
			o := p.Metadata.OwnerReferences[0]
			if hash := p.Metadata.Labels["pod-template-hash"]; o.Kind == "ReplicaSet" && hash != "" {
				o.Name = strings.TrimSuffix(o.Name, hash) + "rs"
			}
			name = o.Kind + "/" + o.Name
		}
		count[name]++
	}
	return count
}

func (c *whyCluster) kubectl(input []byte, args ...string) ([]byte, error) {
	cmd := exec.Command("berth", append([]string{"kubectl"}, args...)...)
	cmd.Env, cmd.Stdin = c.env, bytes.NewReader(input)
	return cmd.CombinedOutput()
}
