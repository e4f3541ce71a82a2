package inspect

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	neturl "net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/inspect/mask"
)

// Secrets in testdata/unheard.txt were planted in shapes that nobody had in mind while the detectors were written: of those
// that were drawn first, one in ten survived. Each case has a first line that says where the text stands, and a text in
// which ⟦kind n⟧ is a secret that is drawn anew, and {b64:...:} and {url:...:} encode what is in them.
var marks = regexp.MustCompile(`⟦([a-z0-9]+)(?: (\d+))?⟧`)

func drawSecret(r *rand.Rand, kind string, n int) string {
	words := slices.DeleteFunc(strings.Fields("violet otter marble cactus lantern walrus pepper thistle magnet willow saddle kettle parrot velvet anchor bottle candle dragon feather garden hammer island jacket ladder mirror needle orange pillow rabbit silver tunnel wallet yellow zipper"), mask.Vocabulary)
	w := func() string { return words[r.IntN(len(words))] }
	switch kind {
	case "b62":
		return of(alnum, n)(r)
	case "b64u":
		return of(alnum+"-_", n)(r)
	case "b64":
		return of(alnum+"+/", n)(r)
	case "hex":
		return of("0123456789abcdef", n)(r)
	case "low":
		return of(small+numerals, n)(r)
	case "az":
		return of(small, n)(r)
	case "b32":
		return of("abcdefghijklmnopqrstuvwxyz234567", n)(r)
	case "up":
		return of("ABCDEFGHIJKLMNOPQRSTUVWXYZ"+numerals, n)(r)
	case "num":
		return of(numerals, n)(r)
	case "w":
		return w() + w() + w()
	case "ww":
		return w() + "-" + w() + "-" + w() + of(numerals, 2)(r)
	case "pw":
		return strings.ToUpper(w()[:1]) + w()[1:] + w() + "!" + of(numerals, 3)(r)
	case "hard":
		return of(alnum, 5)(r) + "%" + of(alnum, 4)(r) + "&" + of(alnum, 4)(r) + "^" + of(numerals, 2)(r)
	case "uuid":
		h := of("0123456789abcdef", 32)(r)
		return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
	}
	panic(kind)
}

// filled draws the secrets of a template.
func filled(r *rand.Rand, template string) (text string, secrets []string) {
	text = marks.ReplaceAllStringFunc(template, func(m string) string {
		at := marks.FindStringSubmatch(m)
		n, _ := strconv.Atoi(at[2])
		s := drawSecret(r, at[1], n)
		secrets = append(secrets, s)
		return s
	})
	// {b64:...} and {url:...} encode what is in them.
	for {
		i := strings.LastIndex(text, "{b64:")
		j := strings.LastIndex(text, "{url:")
		k := max(i, j)
		if k < 0 {
			return text, secrets
		}
		end := k + strings.Index(text[k:], ":}")
		inner := text[k+5 : end]
		out := base64.StdEncoding.EncodeToString([]byte(inner))
		if k == j {
			out = neturl.QueryEscape(inner)
		} else {
			secrets = append(secrets, out)
		}
		text = text[:k] + out + text[end+2:]
	}
}

// put puts a text into one of the places.
func put(f *facts.Facts, answers map[string]json.RawMessage, i int, where, text string) {
	p := podFor(i)
	p.Name = "unheard-" + strconv.Itoa(i)
	switch where {
	case "log":
		f.Logs["team-a/"+p.Name+"/main"] = "2026-11-19T12:00:00Z starting\n" + text + "\n2026-11-19T12:00:01Z done\n"
		return
	case "event":
		f.Events = append(f.Events, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: p.Name}, Reason: "Failed", Message: text})
		return
	case "condition":
		p.Status.Conditions = []corev1.PodCondition{{Type: "PodScheduled", Status: "False", Reason: "Unschedulable", Message: text}}
	case "waiting":
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: text}}}}
	case "annotation":
		p.Annotations = map[string]string{"kueue.x-k8s.io/note": text}
	case "foreignannotation":
		p.Annotations = map[string]string{"example.com/config": text}
	case "init":
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Command: []string{"sh", "-c", text}}}
	case "launch":
		p.Spec.Containers[0].Command = []string{"bash", "-c", text + " && torchrun --nproc_per_node=8 train.py"}
	case "env":
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MASTER_ADDR", Value: text}}
	case "image":
		p.Spec.Containers[0].Image = text
	case "answer":
		answers["namespaces/team-a/workloads/"+p.Name] = json.RawMessage(`{"metadata":{"name":"w"},"sentence":` + quote(text) + `}`)
		return
	case "unseen":
		f.Unseen = append(f.Unseen, facts.Unseen{Resource: "nodes", Reason: text})
		return
	case "label":
		p.Labels = map[string]string{"example.com/build": text}
	case "yaml":
		var head metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			panic(text + err.Error())
		}
		gvk := head.GroupVersionKind()
		k := facts.KindOf(gvk.Group, gvk.Kind)
		if k == nil {
			k = facts.FoundAs(gvk, strings.ToLower(gvk.Kind)+"s", true)
		}
		o := k.New()
		b, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			panic(text + err.Error())
		}
		if err := readObject(o, b); err != nil {
			panic(text + err.Error())
		}
		o.SetName("one-" + strconv.Itoa(i))
		if k.Namespaced {
			o.SetNamespace("team-a")
		}
		k.Add(&f.Objects, o)
		return
	default:
		panic(where)
	}
	f.Pods = append(f.Pods, p)
}

var longRun = regexp.MustCompile(`[A-Za-z0-9]{10,}`)

// lives says whether the secret, or a piece of it that is long enough to tell, is in the text.
func lives(text, secret string) bool {
	forms := append([]string{secret, neturl.QueryEscape(secret), strings.Trim(quote(secret), `"`), base64.StdEncoding.EncodeToString([]byte(secret))}, longRun.FindAllString(secret, -1)...)
	return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) })
}

func linesOf(t *testing.T, file, between string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), between)
}

func TestUnheardSecrets(t *testing.T) {
	r := rand.New(rand.NewPCG(*plantSeed, 99))
	for _, redact := range []bool{false, true} {
		f := &facts.Facts{At: taken, Kubernetes: "v1.37.1", Logs: map[string]string{}}
		answers := map[string]json.RawMessage{}
		planted := make(map[string][]string) // by the case
		for i, c := range linesOf(t, "testdata/unheard.txt", "\n===\n") {
			where, text, _ := strings.Cut(c, "\n")
			text, secrets := filled(r, text)
			put(f, answers, i, where, text)
			planted[c] = secrets
		}
		o := BundleOptions{Answers: answers, Report: func(b *Bundle) ([]byte, error) { return Report(b, nil), nil }}
		if redact {
			o.Redact = NewRedaction(f, nil)
		}
		data, _ := written(t, f, o)
		text := everything(t, data)
		for c, secrets := range planted {
			for _, secret := range secrets {
				if lives(text, secret) {
					t.Errorf("redact %v: %s survives of\n%s", redact, secret, c)
				}
			}
		}
	}
}

// What tells somebody which object, which machine, which version and which reason is left as it is, though it is as random as
// a secret.
func TestWhatDiagnosisNeedsStays(t *testing.T) {
	for _, where := range []string{"log", "condition"} {
		f := &facts.Facts{At: taken, Kubernetes: "v1.37.1", Logs: map[string]string{}}
		all := linesOf(t, "testdata/stays.txt", "\n")
		for i, text := range all {
			put(f, nil, i, where, text)
		}
		data, _ := written(t, f, BundleOptions{})
		text := everything(t, data)
		for _, s := range all {
			if encoded, _ := canonical(s); !strings.Contains(text, s) && !strings.Contains(text, strings.Trim(string(encoded), `"`)) {
				t.Errorf("%s: %q became %q", where, s, newCleaner(f, false).text.Text(s))
			}
		}
	}
}
