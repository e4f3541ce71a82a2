package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// object is a Pool as it stands in a file. Fields of type ignored may be there and do not
// matter: the API server writes them.
type object struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Spec       v1alpha1.PoolSpec `json:"spec"`
	Status     ignored           `json:"status"`
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`

	UID               ignored `json:"uid"`
	ResourceVersion   ignored `json:"resourceVersion"`
	Generation        ignored `json:"generation"`
	CreationTimestamp ignored `json:"creationTimestamp"`
	DeletionTimestamp ignored `json:"deletionTimestamp"`
	DeletionGrace     ignored `json:"deletionGracePeriodSeconds"`
	Finalizers        ignored `json:"finalizers"`
	OwnerReferences   ignored `json:"ownerReferences"`
	ManagedFields     ignored `json:"managedFields"`
	SelfLink          ignored `json:"selfLink"`
}

// list is kind List or PoolList; its items are read one by one, each with its own lines.
type list struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   ignored     `json:"metadata"`
	Items      []yaml.Node `json:"items"`
}

// parser gathers the pools of one file, and all that is wrong with it.
type parser struct {
	file  string
	pools []located
	errs  Errors
}

// located is a pool and where its fields stand.
type located struct {
	pool  v1alpha1.Pool
	lines lines
	sound bool // nothing was wrong with it by itself
}

func (p *parser) fail(line int, field, message string) {
	p.errs = append(p.errs, Error{File: p.file, Line: max(line, 1), Field: field, Message: message})
}

func (p *parser) read(data []byte) {
	documents := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := documents.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.syntax(err)
			return
		}
		p.document(doc.Content[0])
	}
	if len(p.pools) == 0 && len(p.errs) == 0 {
		p.fail(1, "", "no Pool in the file; a fleet is a list of Pool objects of "+v1alpha1.GroupVersion.String())
	}
}

var syntaxError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func (p *parser) syntax(err error) {
	m := syntaxError.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if m == nil {
		p.fail(1, "", err.Error())
		return
	}
	line, _ := strconv.Atoi(m[1])
	text := "not YAML: " + m[2]
	if strings.Contains(text, "cannot start any token") {
		text += "; indent with spaces, not tabs"
	}
	p.fail(line, "", text)
}

func (p *parser) document(n *yaml.Node) {
	if n.ShortTag() == "!!null" {
		return // nothing but comments
	}
	switch kindOf(n) {
	case "List", "PoolList":
		p.list(n)
	default:
		p.pool(n, "", "")
	}
}

func (p *parser) list(n *yaml.Node) {
	var l list
	d := newDecoder(p, "")
	d.decode(n, &l)
	want, itemKind := "v1", ""
	if l.Kind == "PoolList" {
		want, itemKind = v1alpha1.GroupVersion.String(), "Pool"
	}
	if l.APIVersion != want {
		d.failAt("apiVersion", fmt.Sprintf("must be %s for kind %s (%s)", want, l.Kind, valueText(l.APIVersion)))
	}
	for i := range l.Items {
		p.pool(&l.Items[i], fmt.Sprintf("items[%d].", i), itemKind)
	}
}

// pool reads one Pool. The prefix is where it stands in a list, and assumed is the kind of an
// item that does not say it, as items of a PoolList may.
func (p *parser) pool(n *yaml.Node, prefix, assumed string) {
	var o object
	d := newDecoder(p, prefix)
	before := len(p.errs)
	if !d.decode(n, &o) || !d.isPool(o, assumed) {
		return
	}
	pool := v1alpha1.Pool{Spec: o.Spec}
	pool.Name, pool.Namespace = o.Metadata.Name, o.Metadata.Namespace
	pool.Labels, pool.Annotations = o.Metadata.Labels, o.Metadata.Annotations
	v1alpha1.Default(&pool)
	d.check(&pool)
	p.pools = append(p.pools, located{pool: pool, lines: d.lines, sound: len(p.errs) == before})
}

// isPool reports another kind of object, of which nothing else is worth saying.
func (d *decoder) isPool(o object, assumed string) bool {
	want := v1alpha1.GroupVersion.String()
	if assumed != "" && o.Kind == "" && o.APIVersion == "" {
		return true
	}
	if o.Kind == "Pool" && o.APIVersion == want {
		return true
	}
	d.parser.errs = d.parser.errs[:d.start]
	if o.Kind != "Pool" {
		d.failAt("kind", fmt.Sprintf("must be Pool, the only kind in a fleet file (%s)", valueText(o.Kind)))
	}
	if o.APIVersion != want {
		d.failAt("apiVersion", fmt.Sprintf("must be %s (%s)", want, valueText(o.APIVersion)))
	}
	return false
}

// kindOf is the text of the top-level field kind, or empty.
func kindOf(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "kind" {
			return n.Content[i+1].Value
		}
	}
	return ""
}
