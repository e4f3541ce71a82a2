package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine"
)

// taint reads "team=vision:NoSchedule" or "spot:NoExecute".
func taint(text string) (engine.Taint, error) {
	pair, effect, ok := strings.Cut(text, ":")
	key, value, _ := strings.Cut(pair, "=")
	if !ok || key == "" {
		return engine.Taint{}, fmt.Errorf("expected KEY=VALUE:EFFECT or KEY:EFFECT")
	}
	return engine.Taint{Key: key, Value: value, Effect: engine.Effect(effect)}, nil
}

// toleration reads a taint, with or without its value and effect; "*" tolerates everything.
func toleration(text string) (engine.Toleration, error) {
	if text == "*" {
		return engine.Toleration{Op: "Exists"}, nil
	}
	pair, effect, _ := strings.Cut(text, ":")
	key, value, equal := strings.Cut(pair, "=")
	if key == "" {
		return engine.Toleration{}, fmt.Errorf("expected KEY, KEY=VALUE, either with :EFFECT, or *")
	}
	t := engine.Toleration{Key: key, Op: "Exists", Effect: engine.Effect(effect)}
	if equal {
		t.Op, t.Value = "Equal", value
	}
	return t, nil
}

// port reads "80", "80/UDP" or "10.0.0.1:80/TCP".
func port(text string) (engine.Port, error) {
	rest, protocol, _ := strings.Cut(text, "/")
	var ip string
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		ip, rest = rest[:i], rest[i+1:]
	}
	n, err := strconv.ParseInt(rest, 10, 32)
	if err != nil {
		return engine.Port{}, fmt.Errorf("expected PORT, with IP: before it or /PROTOCOL after it")
	}
	return engine.Port{IP: ip, Protocol: protocol, Port: int32(n)}, nil
}

// preference reads "10 zone=a and !spot".
func preference(text string) (engine.Preference, error) {
	weight, rest, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(weight, 10, 32)
	if err != nil {
		return engine.Preference{}, fmt.Errorf("expected a weight and a term, like 10 zone=a")
	}
	t, err := term(rest)
	return engine.Preference{Weight: int32(n), Term: t}, err
}

// nodeNameField is the one field of a node that a term may ask about.
const nodeNameField = "metadata.name"

// term reads conditions joined by "and".
func term(text string) (engine.Term, error) {
	var t engine.Term
	for _, part := range strings.Split(text, " and ") {
		r, err := requirement(strings.TrimSpace(part))
		if err != nil {
			return engine.Term{}, err
		}
		if r.Key == nodeNameField {
			t.Fields = append(t.Fields, r)
			continue
		}
		t.Labels = append(t.Labels, r)
	}
	return t, nil
}

// requirement reads "k", "!k", "k=v", "k!=v", "k > 5", "k < 5", "k in (a,b)" or "k notin (a,b)".
func requirement(text string) (engine.Requirement, error) {
	for _, form := range []struct {
		sign string
		op   engine.Op
	}{
		{" notin ", engine.NotIn}, {" in ", engine.In}, {"!=", engine.NotIn}, {"=", engine.In}, {">", engine.Gt}, {"<", engine.Lt},
	} {
		key, value, ok := strings.Cut(text, form.sign)
		if !ok {
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		values, err := operands(value, form.sign)
		if err != nil || key == "" {
			return engine.Requirement{}, badRequirement(text)
		}
		return engine.Requirement{Key: key, Op: form.op, Values: values}, nil
	}
	if key, ok := strings.CutPrefix(text, "!"); ok && key != "" {
		return engine.Requirement{Key: key, Op: engine.DoesNotExist}, nil
	}
	if text == "" || strings.ContainsAny(text, " ()!") {
		return engine.Requirement{}, badRequirement(text)
	}
	return engine.Requirement{Key: text, Op: engine.Exists}, nil
}

func badRequirement(text string) error {
	return fmt.Errorf("%q: expected k, !k, k=v, k!=v, k>5, k<5, k in (a,b) or k notin (a,b), joined by and", text)
}

// operands reads "(a,b)" after a word, one plain value after a sign.
func operands(text, sign string) ([]string, error) {
	if sign[0] != ' ' {
		return []string{text}, nil
	}
	inner, ok1 := strings.CutPrefix(text, "(")
	inner, ok2 := strings.CutSuffix(inner, ")")
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("expected (a,b)")
	}
	var out []string
	for _, v := range strings.Split(inner, ",") {
		out = append(out, strings.TrimSpace(v))
	}
	return out, nil
}
