package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/cloud"
)

type importOptions struct {
	connection
	files           map[v1alpha1.Provider]*string
	output          string
	price, currency string
	streams         Streams
}

func newCmdCapacityImport(s Streams) *cobra.Command {
	o := &importOptions{streams: s, files: make(map[v1alpha1.Provider]*string)}
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Write Reservations from what a cloud's command line prints",
		Long: `Read what a cloud's command line prints as JSON, and write a Reservation for each reservation of machines with GPUs. Importing again
brings them up to date; what others set, such as a price, stays. The clouds print no price: give one with --price, or set it on the
objects.`,
		Example: `  aws ec2 describe-capacity-reservations | berth capacity import --aws -
  gcloud compute reservations list --format=json | berth capacity import --gcp -
  gcloud compute future-reservations list --format=json | berth capacity import --gcp -
  az capacity reservation list -g GROUP --capacity-reservation-group NAME -o json | berth capacity import --azure - --price 84.8
  berth capacity import --aws reservations.json -o yaml   # prints, and writes nothing`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.output != "" && o.output != "yaml" {
				return fmt.Errorf("-o %q: use yaml", o.output)
			}
			if o.price != "" {
				if _, err := capacity.ParsePrice(o.price); err != nil {
					return fmt.Errorf("--price: %w", err)
				}
			}
			return importRun(cmd.Context(), o)
		},
	}
	o.connection.flags(cmd)
	f := cmd.Flags()
	for _, p := range []v1alpha1.Provider{v1alpha1.ProviderAWS, v1alpha1.ProviderGCP, v1alpha1.ProviderAzure} {
		o.files[p] = f.String(string(p), "", "`FILE` or - with what its command line printed")
	}
	f.StringVar(&o.price, "price", "", "`AMOUNT` that an instance costs an hour, for all of them")
	f.StringVar(&o.currency, "currency", v1alpha1.DefaultCurrency, "of --price")
	f.StringVarP(&o.output, "output", "o", "", "yaml prints the objects and writes nothing")
	cmd.MarkFlagsMutuallyExclusive("aws", "gcp", "azure")
	cmd.MarkFlagsOneRequired("aws", "gcp", "azure")
	return cmd
}

func importRun(ctx context.Context, o *importOptions) error {
	list, skipped, err := o.read()
	if err != nil {
		return failed(err)
	}
	for _, s := range skipped {
		fmt.Fprintf(o.streams.Err, "left out: %s\n", cell(s))
	}
	if o.output == "yaml" {
		return failed(o.print(list))
	}
	cfg, err := o.config()
	if err != nil {
		return failed(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return failed(err)
	}
	for i := range list {
		name, err := applyReservation(ctx, client.Discovery().RESTClient(), list[i])
		if err != nil {
			return failed(err)
		}
		fmt.Fprintf(o.streams.Out, "reservation.%s/%s imported\n", v1alpha1.GroupVersion.Group, name)
	}
	if len(list) == 0 {
		fmt.Fprintln(o.streams.Err, "there is no reservation of machines with GPUs in it")
	}
	return nil
}

func (o *importOptions) read() (list []v1alpha1.Reservation, skipped []string, err error) {
	for _, p := range []v1alpha1.Provider{v1alpha1.ProviderAWS, v1alpha1.ProviderGCP, v1alpha1.ProviderAzure} {
		if *o.files[p] == "" {
			continue
		}
		in := o.streams.In
		if *o.files[p] != "-" {
			f, err := os.Open(*o.files[p])
			if err != nil {
				return nil, nil, err
			}
			defer f.Close()
			in = f
		}
		text, err := io.ReadAll(io.LimitReader(in, cloud.MaxBytes+1))
		if err != nil {
			return nil, nil, err
		}
		list, skipped, err = cloud.Read(p, text, time.Now())
		if err != nil {
			return nil, nil, err
		}
	}
	for i := range list {
		if o.price != "" {
			list[i].Spec.Price = &v1alpha1.Price{PerInstanceHour: o.price, Currency: o.currency}
		}
	}
	return list, skipped, nil
}

func (o *importOptions) print(list []v1alpha1.Reservation) error {
	for i := range list {
		text, err := yaml.Marshal(list[i])
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(o.streams.Out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// Field managers of what an import writes. The price has one of its own, so that an import without --price leaves it.
const (
	importManager = "berth-import"
	priceManager  = "berth-import-price"
)

// applyReservation writes what the provider says, and nothing else: fields that others own stay as they are. It returns the name of
// the object, which is another than the reservation's where another reservation has that.
func applyReservation(ctx context.Context, client rest.Interface, r v1alpha1.Reservation) (string, error) {
	base := "/apis/" + v1alpha1.GroupVersion.String() + "/reservations/"
	var have v1alpha1.Reservation
	switch text, err := client.Get().AbsPath(base + r.Name).DoRaw(ctx); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return "", fmt.Errorf("read reservation %s: %w", r.Name, err)
	default:
		if err := json.Unmarshal(text, &have); err != nil {
			return "", fmt.Errorf("read reservation %s: %w", r.Name, err)
		}
		if have.Spec.ID != "" && !cloud.SameID(&have, &r) {
			r.Name = cloud.OtherName(&r)
		}
	}
	part := func(name string, value any) map[string]any {
		return map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "metadata": map[string]any{"name": r.Name}, name: value}
	}
	price := r.Spec.Price
	r.Spec.Price = nil
	type write struct {
		path, manager string
		body          map[string]any
	}
	writes := []write{{base + r.Name, importManager, part("spec", r.Spec)}, {base + r.Name + "/status", importManager, part("status", r.Status)}}
	if price != nil {
		writes = append(writes, write{base + r.Name, priceManager, part("spec", map[string]any{"price": price})})
	}
	for _, w := range writes {
		body, err := json.Marshal(w.body)
		if err != nil {
			return "", err
		}
		if err := client.Patch(types.ApplyPatchType).AbsPath(w.path).Param("fieldManager", w.manager).Param("force", "true").Body(body).Do(ctx).Error(); err != nil {
			return "", errors.Join(fmt.Errorf("write reservation %s", r.Name), err)
		}
	}
	return r.Name, nil
}
