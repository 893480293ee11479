package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/poolwright/poolwright/cmd/internal/scaffold"
	"github.com/poolwright/poolwright/internal/plural"
)

// defaultInstanceTypes are the smallest of two common families with GPUs.
const defaultInstanceTypes = "g4dn.xlarge,g5.xlarge"

func addInitFlags(v *scaffold.Values, flags *pflag.FlagSet) {
	flags.StringVar(&v.Cluster, "cluster", "", "name of the EKS cluster")
	flags.StringVar(&v.Region, "region", os.Getenv("AWS_REGION"), "its AWS region (default: AWS_REGION)")
	flags.Lookup("region").DefValue = ""
	flags.StringSliceVar(&v.InstanceTypes, "instance-types", nil, "instance types of the pool for GPUs (default: "+defaultInstanceTypes+")")
	flags.IntVar(&v.MaxGPUs, "max-gpus", 4, "the most GPUs that the pool may have")
	flags.StringVar(&v.Account, "account", "", "AWS account; with it, no request is made to AWS (default: that of the EKS cluster)")
	flags.StringSliceVar(&v.Subnets, "subnets", nil, "ids of subnets for nodes (default: those of the EKS cluster)")
	flags.StringSliceVar(&v.SecurityGroups, "security-groups", nil, "ids of security groups for nodes (default: that of the EKS cluster)")
}

func newInit(streams Streams) *cobra.Command {
	var v scaffold.Values
	var output string
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Write the first manifests of a folder: a Cluster, and a pool for GPUs",
		Long: `Write the first manifests of a folder: a Cluster, an EC2NodeClass, a NodePool for GPUs and a DevicePlugin,
with a kustomization of all. In a terminal it prompts for what no flag gives. Account, subnets and security group are those of the
EKS cluster, which needs AWS credentials that allow eks:DescribeCluster; with --account no request is made.

No file is overwritten.`,
		Example: "  poolwright init clusters/dev --cluster dev --region eu-west-1\n  poolwright init clusters/dev --cluster dev --region eu-west-1 --account 111122223333 --instance-types g6.xlarge",
		Args:    oneArgument("the folder", false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := objectOutputs.check(output); err != nil {
				return err
			}
			if err := promptFor(cmd, &v, streams); err != nil {
				return err
			}
			if v.Account == "" {
				var err error
				if v, err = v.Discover(cmd.Context()); err != nil {
					return err
				}
			}
			written, err := scaffold.Write(args[0], v)
			if err != nil {
				return err
			}
			fmt.Fprintf(streams.Err, "wrote %s; check them with: poolwright lint %s\n", plural.Count(len(written.Files), "file"), args[0])
			return written.Print(streams.Out, output)
		},
	}
	addInitFlags(&v, cmd.Flags())
	objectOutputs.addTo(cmd, &output)
	return cmd
}

// promptFor reads what no flag gives from a terminal; without one, the checks report it.
func promptFor(cmd *cobra.Command, v *scaffold.Values, streams Streams) error {
	lines := bufio.NewScanner(streams.In)
	prompt := func(text, byDefault string) string {
		if !canPrompt(streams.In) {
			return byDefault
		}
		fmt.Fprint(streams.Err, text)
		if lines.Scan() && strings.TrimSpace(lines.Text()) != "" {
			return strings.TrimSpace(lines.Text())
		}
		return byDefault
	}
	if v.Cluster == "" {
		v.Cluster = prompt("EKS cluster: ", "")
	}
	if v.Region == "" {
		v.Region = prompt("AWS region: ", "")
	}
	if !cmd.Flags().Changed("instance-types") {
		for name := range strings.SplitSeq(prompt("Instance types with GPUs ["+defaultInstanceTypes+"]: ", defaultInstanceTypes), ",") {
			v.InstanceTypes = append(v.InstanceTypes, strings.TrimSpace(name))
		}
	}
	return v.CheckCluster()
}
