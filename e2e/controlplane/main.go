// Command controlplane is every program of a Kubernetes control plane, and the
// clients of one, in a single binary: the name it is called by (argv[0]) picks
// the program. One binary links, caches and starts faster than seven.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	helmcmd "helm.sh/helm/v4/pkg/cmd"
	helmkube "helm.sh/helm/v4/pkg/kube"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	"sigs.k8s.io/kwok/pkg/config"
	kwokcmd "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// A program runs to its end and says how it went.
type program func() error

var programs = map[string]program{
	"etcd": func() error {
		etcdmain.Main(os.Args)
		return nil
	},
	"kube-apiserver": func() error {
		return code(cli.Run(apiserver.NewAPIServerCommand()))
	},
	"kube-controller-manager": func() error {
		return code(cli.Run(controllermanager.NewControllerManagerCommand()))
	},
	"kube-scheduler": func() error {
		return code(cli.Run(scheduler.NewSchedulerCommand()))
	},
	"kubectl": func() error {
		return cli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand())
	},
	"helm": helm,
	"kwok": kwok,
}

// exitCode is the failure of a program that has already said why.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func code(c int) error {
	if c == 0 {
		return nil
	}
	return exitCode(c)
}

func helm() error {
	helmkube.ManagedFieldsManager = "helm"
	root, err := helmcmd.NewRootCmd(os.Stdout, os.Args[1:], helmcmd.SetupLogging)
	if err != nil {
		return err
	}
	err = root.Execute()
	var failed helmcmd.CommandError
	if errors.As(err, &failed) {
		return code(failed.ExitCode)
	}
	return err
}

func kwok() error {
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	global.ParseErrorsAllowlist.UnknownFlags = true
	global.Usage = func() {}
	ctx, _ := log.InitFlags(signals.SetupSignalContext(), global)
	ctx, err := config.InitFlags(ctx, global)
	if err != nil {
		return err
	}
	root := kwokcmd.NewCommand(ctx)
	// The Kubernetes packages in this binary have registered --version already.
	root.Version = ""
	root.PersistentFlags().AddFlagSet(global)
	return root.ExecuteContext(ctx)
}

func main() {
	name := filepath.Base(os.Args[0])
	run, known := programs[name]
	if !known {
		names := make([]string, 0, len(programs))
		for name := range programs {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "called as %q; call it by one of these names: %s\n", name, strings.Join(names, ", "))
		os.Exit(2)
	}
	err := run()
	var quiet exitCode
	switch {
	case err == nil:
	case errors.As(err, &quiet):
		os.Exit(int(quiet))
	default:
		slog.Error(name+" failed", "err", err)
		os.Exit(1)
	}
}
