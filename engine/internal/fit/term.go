package fit

import "fmt"

// nameField is the one field that a term may ask for.
const nameField = "metadata.name"

// Matches tells whether a node with these labels and this name meets every requirement of the term. It
// looks at the shape of requirements only, not at the syntax of keys and values: a term that fails Check
// matches no node in Kubernetes, and must be kept out by the caller. Without a name, fields are not
// looked at.
func (t Term) Matches(labels map[string]string, name string) bool {
	if len(t.Labels) == 0 && len(t.Fields) == 0 {
		return false
	}
	for i := range t.Labels {
		if !t.Labels[i].Matches(labels) {
			return false
		}
	}
	for i := range t.Fields {
		if !t.Fields[i].matchesField(name) {
			return false
		}
	}
	return true
}

func (r Requirement) matchesField(name string) bool {
	if r.Key != nameField || len(r.Values) != 1 {
		return false
	}
	switch r.Op {
	case In:
		return name == "" || r.Values[0] == name
	case NotIn:
		return name == "" || r.Values[0] != name
	}
	return false
}

// Check says what is wrong with the first requirement that is malformed. An empty term is not: it
// matches nothing, and Kubernetes accepts it.
func (t Term) Check() error {
	for _, r := range t.Labels {
		if err := r.Check(); err != nil {
			return err
		}
	}
	for _, r := range t.Fields {
		if complaint := r.fieldComplaint(); complaint != "" {
			return fmt.Errorf("field requirement %q: %s", r.String(), complaint)
		}
	}
	return nil
}

func (r Requirement) fieldComplaint() string {
	if r.Key != nameField {
		return "the only field is " + nameField
	}
	if r.Op != In && r.Op != NotIn {
		return fmt.Sprintf("a field takes In or NotIn, not %q", r.Op)
	}
	if len(r.Values) != 1 {
		return string(r.Op) + " on a field needs exactly one value"
	}
	return ""
}

// Check says what is wrong with the preference.
func (p Preference) Check() error {
	if err := p.Term.Check(); err != nil {
		return fmt.Errorf("preference: %w", err)
	}
	if p.Weight < 1 || p.Weight > 100 {
		return fmt.Errorf("preference: weight %d is not within 1 to 100", p.Weight)
	}
	return nil
}
