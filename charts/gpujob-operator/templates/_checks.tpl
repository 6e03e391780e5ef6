{{/* What values.schema.json cannot say in a sentence with its remedy. Renders nothing; fails at the first value that is wrong. */}}
{{- define "gpujob-operator.checks" -}}
{{- $values := .Values -}}
{{- range $path, $value := dict
  "fullnameOverride" $values.fullnameOverride
  "global.imageRegistry" $values.global.imageRegistry
  "image.digest" $values.image.digest
  "image.registry" $values.image.registry
  "image.repository" $values.image.repository
  "image.tag" $values.image.tag
  "monitoring.dashboards.namespace" $values.monitoring.dashboards.namespace
  "nameOverride" $values.nameOverride
  "priorityClassName" $values.priorityClassName
  "serviceAccount.name" $values.serviceAccount.name -}}
{{- include "gpujob-operator.checkText" (list $path $value) -}}
{{- end -}}
{{- $labels := dict
  "commonLabels" $values.commonLabels
  "monitoring.dashboards.labels" $values.monitoring.dashboards.labels
  "monitoring.podMonitor.labels" $values.monitoring.podMonitor.labels
  "monitoring.prometheusRule.labels" $values.monitoring.prometheusRule.labels
  "monitoring.serviceMonitor.labels" $values.monitoring.serviceMonitor.labels
  "podLabels" $values.podLabels -}}
{{- $others := dict
  "monitoring.dashboards.annotations" $values.monitoring.dashboards.annotations
  "nodeSelector" $values.nodeSelector
  "podAnnotations" $values.podAnnotations
  "serviceAccount.annotations" $values.serviceAccount.annotations -}}
{{- range $path, $texts := merge $others $labels -}}
{{- range $key, $value := $texts -}}
{{- include "gpujob-operator.checkText" (list (printf "%s.%s" $path $key) $value) -}}
{{- end -}}
{{- end -}}
{{- range $path, $texts := $labels -}}
{{- range $key, $_ := $texts -}}
{{- if has $key (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "app.kubernetes.io/part-of" "helm.sh/chart") -}}
{{- fail (printf "%s has the key %s, which the chart sets: choose another key" $path $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range concat $values.imagePullSecrets $values.global.imagePullSecrets -}}
{{- include "gpujob-operator.checkText" (list "imagePullSecrets[].name" .name) -}}
{{- end -}}
{{- $set := list -}}
{{- range include "gpujob-operator.environment" . | fromYamlArray -}}
{{- $set = append $set .name -}}
{{- end -}}
{{- range $values.extraEnv -}}
{{- include "gpujob-operator.checkText" (list (printf "extraEnv %s" .name) .value) -}}
{{- if has .name $set -}}
{{- fail (printf "extraEnv sets %s, which is set already: leave it out of extraEnv" .name) -}}
{{- end -}}
{{- $set = append $set .name -}}
{{- end -}}
{{- end -}}

{{/* Fails unless a value is text or absent: (list path value). --set makes numbers and booleans of what looks like them, and Helm
loses digits of a number of a values file (1.10 is 1.1 there). */}}
{{- define "gpujob-operator.checkText" -}}
{{- $value := index . 1 -}}
{{- if not (or (kindIs "string" $value) (kindIs "invalid" $value)) -}}
{{- fail (printf "%s is a %s, and must be text: write --set-string in place of --set, or put it in quotes in a values file" (index . 0) (kindIs "bool" $value | ternary "boolean" "number")) -}}
{{- end -}}
{{- end -}}

{{/* Fails where another release of this cluster runs GPUJobs of the same namespaces, or has the objects of which a cluster has one.
Without a cluster (helm template) no other release is known. */}}
{{- define "gpujob-operator.otherReleases" -}}
{{- $root := . -}}
{{- /* Who may make the operator's roles may list them. */ -}}
{{- $roles := dict -}}
{{- if .Values.rbac.create -}}
{{- $roles = lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "" -}}
{{- end -}}
{{- range $roles.items -}}
{{- $other := include "gpujob-operator.otherRelease" (list $root .) -}}
{{- $theirs := index (.metadata.annotations | default dict) "gpujob.dev/watch-namespaces" -}}
{{- if and $other $theirs -}}
{{- if or (eq $theirs "*") (not $root.Values.watchNamespaces) -}}
{{- fail (printf "%s runs the GPUJobs of %s, and this release those of %s: two operators may not write the same jobs; give both releases watchNamespaces that differ" $other (eq $theirs "*" | ternary "all namespaces" (splitList "," $theirs | join ", ")) (join ", " $root.Values.watchNamespaces | default "all namespaces")) -}}
{{- end -}}
{{- range $root.Values.watchNamespaces -}}
{{- if has . (splitList "," $theirs) -}}
{{- fail (printf "%s runs the GPUJobs of namespace %s: take it out of watchNamespaces of one of the two releases" $other .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $policy := list "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" -}}
{{- $values := .Values -}}
{{- $held := "" -}}
{{- $off := list -}}
{{- range list
  (list "crds.enabled" $values.crds.enabled "apiextensions.k8s.io/v1" "CustomResourceDefinition" "gpujobs.gpujob.dev")
  (list "userRoles.create" $values.userRoles.create "rbac.authorization.k8s.io/v1" "ClusterRole" "gpujob-viewer")
  (concat (list "admission.requirePodsCreate" $values.admission.requirePodsCreate) $policy (list "requester-may-create-pods.gpujob.dev"))
  (concat (list "admission.protectChildren" $values.admission.protectChildren) $policy (list "children-are-the-operators.gpujob.dev"))
  (concat (list "admission.limitServiceAccounts" $values.admission.limitServiceAccounts) $policy (list "accounts-are-allowed.gpujob.dev"))
  (concat (list "admission.allowedImages" $values.admission.allowedImages) $policy (list "images-are-allowed.gpujob.dev")) -}}
{{- if index . 1 -}}
{{- $other := include "gpujob-operator.otherRelease" (list $root (lookup (index . 2) (index . 3) "" (index . 4))) -}}
{{- if $other -}}
{{- $held = $other -}}
{{- $off = append $off (printf "%s=%s" (index . 0) (kindIs "slice" (index . 1) | ternary "[]" "false")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $off -}}
{{- fail (printf "%s has objects that a cluster has once: set %s for this release" $held (join ", " $off)) -}}
{{- end -}}
{{- end -}}

{{/* "release R in namespace N" where an object is another release's than this one: (list root object); else nothing. */}}
{{- define "gpujob-operator.otherRelease" -}}
{{- $root := index . 0 -}}
{{- $annotations := ((index . 1).metadata).annotations | default dict -}}
{{- $name := index $annotations "meta.helm.sh/release-name" -}}
{{- $namespace := index $annotations "meta.helm.sh/release-namespace" -}}
{{- if and $name (or (ne $name $root.Release.Name) (ne $namespace $root.Release.Namespace)) -}}
{{- printf "release %s in namespace %s" $name $namespace -}}
{{- end -}}
{{- end -}}
