package mask

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write vocabulary.txt anew")

// sources are the folders of the packages whose texts are messages, or are looked for in messages.
var sources = []string{
	"../../../diagnose", "../../../engine/why", "../../../engine/internal/describe", "../../../kube/answer", "../../../kube/cluster", "../../../kube/convert",
	"../../../kube/dialect", "../../../kube/report", "../../../kube/scheduler", "../../../fleet/workload", "../../../fleet/kubelet",
}

// filesIn are the Go files of the folder and those below it.
func filesIn(t *testing.T, folder string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".go") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", folder, err)
	}
	return files
}

var letters = regexp.MustCompile(`[A-Za-z]{2,24}`)

// made is the words of all texts in the sources, and of the messages that diagnosis is tried on.
func made(t *testing.T) []string {
	t.Helper()
	all := make(map[string]bool)
	for w := range strings.FieldsSeq(english) {
		all[w] = true
	}
	add := func(text string) {
		for _, run := range letters.FindAllString(text, -1) {
			for _, w := range split(run) {
				if len(w) > 1 && !gibberish(strings.ToLower(w)) || len(w) < 8 && len(w) > 1 {
					all[strings.ToLower(w)] = true
				}
			}
			all[strings.ToLower(run)] = len(run) < 20
		}
	}
	for _, dir := range sources {
		for _, name := range filesIn(t, dir) {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if s, err := strconv.Unquote(lit.Value); err == nil {
						add(regexp.MustCompile(`\\[a-zA-Z]|%[a-z+]`).ReplaceAllString(s, " "))
					}
				}
				return true
			})
		}
	}
	var cases []string
	for _, pattern := range []string{"*.tmpl", "cases/*/*.yaml"} {
		found, err := filepath.Glob("../../../diagnose/testdata/" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		cases = append(cases, found...)
	}
	for _, name := range cases {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			if message.MatchString(line) {
				add(line)
			}
			add(drawn.ReplaceAllString(given.FindString(line), " "))
		}
	}
	maps.DeleteFunc(all, func(w string, ok bool) bool { return !ok })
	return slices.Sorted(maps.Keys(all))
}

var message = regexp.MustCompile(`(?i)\b(message|reason|type|phase|status|state|operator|effect|note|restartPolicy|lines)"?:`)

// given finds a message that is an argument of a template; names are drawn, and are no words of it.
var (
	given = regexp.MustCompile(`"message" [("].*`)
	drawn = regexp.MustCompile(`\(name "[^"]*"[^)]*\)`)
)

// english are words that every message may have.
const english = `a i the of to in on at by for from with without and or not no is are was were be been being has have had do does did will would can could may might must shall should this that these those it its
	if then else when while until after before because since as so than too also only just still yet already again ever never always often now here there where what which who whose how why all any each every both few more most
	other another some such same own first last next new old one two three four five six seven eight nine ten once twice yes ok okay please see use used using uses try tried trying retry retrying retries start started starting starts
	stop stopped stopping end ended ending exit exited run running ran runs wait waiting waits waited fail failed failing fails failure error errors warning info debug trace fatal panic exception traceback recent call line file module
	step steps epoch loss iteration iter batch lr rate time seconds minutes hours days train training trained model models data dataset loading loaded load save saved saving checkpoint checkpoints resume resuming rank ranks world size
	log logs level message messages connect connected connecting connection connections refused reset timeout timed out host port address server client user request response status code
	details zonal regional overconstrained allocation sku spot fleet vcpu machine machines instance instances capacity exhausted unavailable`

// TestVocabulary holds the list to its sources: -update writes it.
func TestVocabulary(t *testing.T) {
	words := strings.Join(made(t), "\n") + "\n"
	if *update {
		if err := os.WriteFile("vocabulary.txt", []byte(words), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	var missing []string
	all := strings.Fields(words)
	for _, w := range all {
		if !Vocabulary(w) {
			missing = append(missing, w)
		}
	}
	// A word more or less costs a redacted message a word. What a check looks for is held by its own test, from a bundle.
	t.Logf("%d of %d words are missing: %v", len(missing), len(all), missing)
	if len(missing) > len(all)/50 {
		t.Error("vocabulary.txt is out of date: go test ./kube/inspect/mask -run TestVocabulary -update")
	}
}
