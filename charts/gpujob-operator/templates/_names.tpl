{{/* The chart's name in labels. Every object has it, so the values are checked here. */}}
{{- define "gpujob-operator.name" -}}
{{- include "gpujob-operator.checks" . -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the release's objects: the release's own name when it contains the chart's. A Service is among them. */}}
{{- define "gpujob-operator.fullname" -}}
{{- $name := include "gpujob-operator.name" . -}}
{{- $full := .Values.fullnameOverride -}}
{{- if not $full -}}
{{- $full = contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- end -}}
{{- $full = $full | trunc 63 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $full) -}}
{{- fail (printf "no Service can be named %s: set fullnameOverride to lower-case letters, digits and hyphens, with a letter first" $full) -}}
{{- end -}}
{{- $full -}}
{{- end -}}

{{/* The name of the operator's ServiceAccount. */}}
{{- define "gpujob-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "gpujob-operator.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The labels that select the operator's pods; they never change between versions. */}}
{{- define "gpujob-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gpujob-operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* The labels of every object. */}}
{{- define "gpujob-operator.labels" -}}
{{- include "gpujob-operator.labelsWith" (list . dict) -}}
{{- end -}}

{{/* The labels of an object that has more of its own: (list root labels). Its own come before commonLabels. */}}
{{- define "gpujob-operator.labelsWith" -}}
{{- $root := index . 0 -}}
{{- $labels := include "gpujob-operator.selectorLabels" $root | fromYaml -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $labels "app.kubernetes.io/part-of" "gpujob" -}}
{{- toYaml (merge $labels (index . 1) $root.Values.commonLabels) -}}
{{- end -}}

{{/* The operator's image: by digest where one is given, else by tag, from the registry of the values where one is given.
There is no default repository, since no image is published. */}}
{{- define "gpujob-operator.image" -}}
{{- $repository := .Values.image.repository -}}
{{- if not $repository -}}
{{- fail "image.repository is empty and no image is published: build images/operator, push it to your registry, and set image.repository to its name there (replicaCount=0 needs no image)" -}}
{{- end -}}
{{- with .Values.image.registry | default .Values.global.imageRegistry -}}
{{- $parts := splitn "/" 2 $repository -}}
{{- /* As container runtimes read it: the first part is a registry when it has a dot or a port, or is localhost. */ -}}
{{- if and $parts._1 (or (contains "." $parts._0) (contains ":" $parts._0) (eq $parts._0 "localhost")) -}}
{{- $repository = $parts._1 -}}
{{- end -}}
{{- $repository = printf "%s/%s" . $repository -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Something when an object of monitoring.coreos.com is to be made: true, or auto and the cluster has that API. */}}
{{- define "gpujob-operator.monitors" -}}
{{- $root := index . 0 -}}
{{- $asked := index . 1 | toString -}}
{{- if or (eq $asked "true") (and (eq $asked "auto") ($root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
yes
{{- end -}}
{{- end -}}

{{/* What a reporter in a pod serves, without gpujob_: the table of docs/telemetry.md. */}}
{{- define "gpujob-operator.reporterNames" -}}
up
world_size
ranks_reporting
attempt_info
steps_total
skipped_steps_total
samples_total
tokens_total
step_duration_seconds(_sum|_count)?
data_wait_seconds_total
data_wait_ratio
last_step_timestamp_seconds
first_step_timestamp_seconds
process_start_timestamp_seconds
progress_ratio
remaining_seconds
progress_timestamp_seconds
training_metric
checkpoint_step
checkpoint_timestamp_seconds
checkpoint_save_seconds
unsaved_steps
still_seconds
slowest_step_seconds
phase_left_seconds
phase
device_memory_allocated_bytes
device_memory_reserved_bytes
device_memory_peak_bytes
device_memory_reserved_peak_bytes
device_memory_used_bytes
device_memory_total_bytes
device_fault_timestamp_seconds
on_device
process_info
reporter_failures_total
{{- end -}}

{{/* The runner's ConfigMaps of earlier versions, newest first, at most 16: those that the roles in the cluster name. Without a cluster
(helm template) none is known. */}}
{{- define "gpujob-operator.earlierRunners" -}}
{{- $own := .Files.Get "files/runner-name" | trim }}
{{- $names := list }}
{{- $held := list (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" (include "gpujob-operator.fullname" .)) }}
{{- range .Values.watchNamespaces }}
{{- $held = append $held (lookup "rbac.authorization.k8s.io/v1" "Role" . (include "gpujob-operator.jobsRole" $)) }}
{{- end }}
{{- range $held }}
{{- range .rules }}
{{- range .resourceNames }}
{{- if and (regexMatch "^gpujob-runner-[0-9a-f]{10}$" .) (ne . $own) }}
{{- $names = append $names . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $at, $name := uniq $names }}
{{- if lt $at 16 }}{{ if $at }}, {{ end }}{{ $name }}{{ end }}
{{- end }}
{{- end }}

{{/* The operator's environment, as the values say it. */}}
{{- define "gpujob-operator.environment" -}}
- name: GPUJOB_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: GPUJOB_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: GPUJOB_METRICS_PORT
  value: {{ .Values.metrics.port | quote }}
{{- if .Values.metrics.authentication.enabled }}
- name: GPUJOB_METRICS_AUTHENTICATION
  value: "true"
{{- end }}
{{- if .Values.metrics.tlsSecret }}
- name: GPUJOB_METRICS_TLS
  value: /etc/gpujob-tls
{{- end }}
- name: GPUJOB_HEALTH_PORT
  value: {{ .Values.health.port | quote }}
{{- with .Values.watchNamespaces }}
- name: GPUJOB_WATCH_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
- name: GPUJOB_SITE
  value: /etc/gpujob/site.yaml
- name: GPUJOB_LOG_LEVEL
  value: {{ .Values.logLevel | quote }}
- name: GPUJOB_LOG_FORMAT
  value: {{ .Values.logFormat | quote }}
- name: GPUJOB_PROVISION_SECONDS
  value: {{ .Values.provisionSeconds | quote }}
- name: GPUJOB_HOLD_SECONDS
  value: {{ .Values.holdSeconds | quote }}
- name: GPUJOB_UNBOUND_SECONDS
  value: {{ .Values.unboundSeconds | quote }}
{{- end }}

{{/* The text of the ConfigMap gpujob-site. */}}
{{- define "gpujob-operator.site" -}}
{{- $site := dict "prices" .Values.prices "catalog" .Values.catalog "imageMirrors" .Values.imageMirrors "serviceAccounts" .Values.admission.allowedServiceAccounts -}}
{{- /* A command line of before this value reads no section that it does not know. */}}
{{- with .Values.docsURL }}{{- $_ := set $site "docsURL" . }}{{ end -}}
{{- $host := list -}}
{{- range list "hostDevices" "hostNetwork" -}}
{{- if or (index $.Values.admission .) (not $.Values.admission.limitOperator) -}}
{{- $host = append $host . -}}
{{- end -}}
{{- end -}}
{{- with $host }}{{- $_ := set $site "hostAccess" . }}{{ end -}}
{{- toYaml $site -}}
{{- end }}

{{/* Where `helm test` runs its job: a namespace whose GPUJobs the operator runs. */}}
{{- define "gpujob-operator.testNamespace" -}}
{{- $watched := .Values.watchNamespaces | default (list .Release.Namespace) -}}
{{- has .Release.Namespace $watched | ternary .Release.Namespace (first $watched) -}}
{{- end -}}

{{/* The metadata of an object of `helm test`: (list root name weight namespace). */}}
{{- define "gpujob-operator.testMetadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 | quote }}
namespace: {{ index . 3 | quote }}
labels:
  {{- /* Not the operator's own name: its Service, PodDisruptionBudget and NetworkPolicy select by that. */}}
  app.kubernetes.io/name: {{ printf "%s-test" (include "gpujob-operator.name" $root | trunc 58 | trimSuffix "-") | quote }}
  {{- omit (include "gpujob-operator.labels" $root | fromYaml) "app.kubernetes.io/name" | toYaml | nindent 2 }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
  helm.sh/hook-weight: {{ index . 2 | quote }}
{{- end }}

{{/* The ServiceAccounts that pods of GPUJobs may have, as a list of CEL; empty is the API server's word for `default`. */}}
{{- define "gpujob-operator.accounts" -}}
{{- printf "['%s']" (concat (list "" "default") .Values.admission.allowedServiceAccounts | join "', '") -}}
{{- end }}
